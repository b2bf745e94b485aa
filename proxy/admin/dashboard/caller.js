// One caller: what it has used of each limit and why it is refused; reset and override.
import { call } from './api.js';
import { field, open, run } from './dialog.js';
import { Table, bar, duration, element, find, make, setText, text } from './dom.js';

const HASH = /^[0-9a-f]{16}$/;
const INTO = { exempt: (body) => ({ ...body, exempt: true }), deny: (body) => ({ ...body, deny: true }) };

function why(limit) {
	if (limit.banned)
		return `Banned by ${limit.limit}: refused for ${duration(limit.banned_ms)}.`;
	if (limit.remaining > 0)
		return null;
	const text = `${limit.limit} is used up: the next request is admitted in ${duration(limit.more_ms)}, `
		+ `all of it is free in ${duration(limit.clear_ms)}.`;
	return limit.shadow ? `${text} (In shadow mode: it is not refused.)` : text;
}

function explain(answer) {
	if (answer.override?.kind === 'deny')
		return ['An override refuses every request.'];
	if (answer.override?.kind === 'exempt')
		return ['An override exempts it from all limits.'];
	return answer.limits.map(why).filter((one) => one !== null);
}

function overrideText(override) {
	if (!override)
		return 'None: its plan and its routes decide.';
	const kind = { exempt: 'exempt from all limits', deny: 'refused', plan: `of plan ${override.plan}` }[override.kind];
	return `It is ${kind} until ${new Date(override.until).toLocaleString()}.`;
}

function overrideForm(path, plans) {
	const kind = make('select', {}, make('option', { value: 'exempt' }, 'exempt from all limits'),
		make('option', { value: 'deny' }, 'refused'),
		...plans.map((plan) => make('option', { value: `plan ${plan}` }, `of plan ${plan}`)));
	const span = make('input', { value: '1h', size: 6, required: true, pattern: '[0-9]+(ms|s|m|h|d)([0-9]+(ms|s|m|h|d))*' });
	const submit = async () => {
		const body = { for: span.value };
		const chosen = INTO[kind.value]?.(body) ?? { ...body, plan: kind.value.slice(5) };
		await call(`${path}/override`, 'PUT', chosen);
		return 'The override is in force.';
	};
	return make('form', { class: 'line', id: 'override', onsubmit: (event) => {
		event.preventDefault();
		run(submit);
	} }, field('Make it', kind), field('for', span), make('button', { type: 'submit' }, 'Override'),
	make('button', { type: 'button', id: 'end-override', onclick: () => run(async () => {
		await call(`${path}/override`, 'DELETE');
		return 'The override has ended.';
	}) }, 'End it'));
}

class View {
	constructor(body, path, hash, plans) {
		this.path = path;
		this.verdict = make('div', { class: 'verdict', id: 'why' });
		const table = make('div', { class: 'scroll' });
		body.replaceChildren(this.verdict, table, make('p', { class: 'actions' },
			make('button', { type: 'button', id: 'reset', onclick: () => run(() => this.reset()) }, 'Reset: forget what it has used')));
		this.table = new Table(table, 'Its limits', [
			{ label: 'Limit', head: true, show: text((row) => row.limit) },
			{ label: 'Used', wide: true, show: element((row) => bar(row.used, row.quota)) },
			{ label: 'Remaining', number: true, show: text((row) => String(row.remaining)) },
			{ label: 'More in', number: true, show: text((row) => row.more_ms ? duration(row.more_ms) : 'now') },
			{ label: 'Clear in', number: true, show: text((row) => row.clear_ms ? duration(row.clear_ms) : '—') },
			{ label: 'Hash in the log', show: text((row) => row.caller) },
		], (row) => row.limit, 'No limit holds anything of it.');
		if (!hash)
			return;
		this.override = make('p', { id: 'override-now' });
		body.append(make('h3', {}, 'Override'), this.override, overrideForm(path, plans));
	}

	async reset() {
		const { reset } = await call(this.path, 'DELETE');
		return reset.length ? `Forgotten: ${reset.join(', ')}.` : 'There was nothing to forget.';
	}

	async refresh() {
		const answer = await call(this.path);
		const reasons = explain(answer);
		this.verdict.className = `verdict ${reasons.length ? 'bad' : 'good'}`;
		const lines = reasons.length ? reasons : ['No limit refuses it now.'];
		this.verdict.replaceChildren(...lines.map((line) => make('p', {}, line)));
		this.table.show(answer.limits);
		if (this.override)
			setText(this.override, overrideText(answer.override));
	}
}

// By its hash, or by its key where `word` is none.
export function openCaller(word, plans) {
	const hash = HASH.test(word);
	const path = hash ? `callers/${word}` : `callers?key=${encodeURIComponent(word)}`;
	let view = null;
	open(`Caller ${word}`, async (body) => {
		view ??= new View(body, path, hash, plans);
		await view.refresh();
	});
}

export function bindSearch(plans) {
	find('find').addEventListener('submit', (event) => {
		event.preventDefault();
		openCaller(find('find-key').value, plans());
	});
}
