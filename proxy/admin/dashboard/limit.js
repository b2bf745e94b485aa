// Changing a limit.
import { call } from './api.js';
import { open, run } from './dialog.js';
import { bar, make, number, setText } from './dom.js';

// settings: the limit's of GET config; the one that says how much is `concurrency` or `rate`.
export function openLimit(name, settings, changed) {
	const key = 'concurrency' in settings ? 'concurrency' : 'rate';
	let facts = null;
	open(`Limit ${name}`, async (body) => {
		facts ??= show(body, name, key, settings, changed);
		const limit = await call(`limits/${encodeURIComponent(name)}`);
		const { admitted, refused, shadow_refused: shadow } = limit.verdicts;
		facts.counts.textContent = `${number(admitted)} admitted, ${number(refused)} refused and `
			+ `${number(shadow)} over it in shadow mode since the start; callers: `;
		facts.counts.append(bar(limit.callers, limit.capacity));
		setText(facts.note, limit.changed ? 'It differs from the file, which the next reload or start takes.' : '');
	});
}

function show(body, name, key, settings, changed) {
	const input = make('input', { id: 'limit-value', value: settings[key] ?? '', required: true, autocomplete: 'off' });
	const mode = make('select', { id: 'limit-mode' }, make('option', { value: 'enforce' }, 'enforced'),
		make('option', { value: 'shadow' }, 'in shadow mode: counted, not refused'));
	const counts = make('p', {}), note = make('p', { class: 'warn' });
	mode.value = settings.mode ?? 'enforce';
	const before = mode.value;
	const form = make('form', { id: 'limit-form', onsubmit: (event) => {
		event.preventDefault();
		run(async () => {
			const more = mode.value === before ? {} : { mode: mode.value };
			await call(`limits/${encodeURIComponent(name)}`, 'PATCH', { [key]: input.value, ...more });
			await changed();
			return 'It is in force. Only the file keeps it: the next reload or start takes the file’s value.';
		});
	} }, make('label', { for: 'limit-value' }, key === 'rate' ? 'Rate, as “200 per 10s”' : 'At once'), input,
	make('label', { for: 'limit-mode' }, 'Requests over it are'), mode,
	make('p', { class: 'actions' }, make('button', { type: 'submit', class: 'main' }, 'Change it now')));
	body.replaceChildren(counts, note, form);
	return { counts, note };
}
