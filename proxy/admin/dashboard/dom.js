// Elements. Texts are set as texts, never as markup: names, addresses and keys come from others.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith('on'))
			element.addEventListener(name.slice(2), value);
		else if (value === true)
			element.setAttribute(name, '');
		else if (value !== false && value !== null && value !== undefined)
			element.setAttribute(name, value);
	}
	element.append(...children.filter((child) => child !== null && child !== undefined));
	return element;
}

// An element with attributes (`onclick` and the like are listeners) and children.
export function make(name, attributes = {}, ...children) {
	return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
	return fill(document.createElementNS(SVG, name), attributes, children);
}

export const find = (id) => document.getElementById(id);

export function setText(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

// How much of a window is used, as a picture with a text beside it.
export function bar(used, quota) {
	const part = quota > 0 ? Math.min(1, used / quota) : 0;
	const picture = svg('svg', { class: part >= 1 ? 'bar full' : 'bar', viewBox: '0 0 100 10',
		preserveAspectRatio: 'none', 'aria-hidden': 'true' },
	svg('rect', { x: 0, y: 0, width: 100 * part, height: 10 }));
	return make('span', {}, picture, ` ${number(used)} of ${number(quota)}`);
}

// The last values as a line; decoration, as the number stands beside it.
export function spark(values) {
	const most = Math.max(1, ...values);
	const step = 100 / Math.max(1, values.length - 1);
	const points = values.map((value, i) => `${(i * step).toFixed(1)} ${(19 - 18 * value / most).toFixed(1)}`);
	return svg('svg', { class: 'spark', viewBox: '0 0 100 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
		svg('path', { d: points.length > 1 ? `M${points.join('L')}` : '' }));
}

// A table whose rows stay the same elements from one second to the next, so that focus stays.
// columns: { label, number, wide, show(row) -> text or element, head }; key(row) names a row.
export class Table {
	constructor(parent, caption, columns, key, empty) {
		this.columns = columns;
		this.key = key;
		this.rows = new Map();
		const head = columns.map((column) => make('th', { scope: 'col', role: 'columnheader',
			class: column.number ? 'number' : null }, column.label));
		this.body = make('tbody', { role: 'rowgroup' });
		this.table = make('table', { role: 'table' }, make('caption', { class: 'unseen' }, caption),
			make('thead', { role: 'rowgroup' }, make('tr', { role: 'row' }, ...head)), this.body);
		this.empty = make('p', { class: 'quiet' }, empty);
		parent.tabIndex = 0;
		parent.setAttribute('role', 'region');
		parent.setAttribute('aria-label', caption);
		parent.replaceChildren(this.table, this.empty);
	}

	make(row) {
		const cells = this.columns.map((column) => column.head ?
			make('th', { scope: 'row', role: 'rowheader' }) :
			make('td', { role: 'cell', 'data-label': column.label,
				class: [column.number ? 'number' : '', column.wide ? 'wide' : '', column.name ? 'name' : ''].join(' ') }));
		return { element: make('tr', { role: 'row' }, ...cells), cells, row };
	}

	show(rows) {
		const old = this.rows;
		const focused = document.activeElement;
		this.rows = new Map();
		let at = this.body.firstChild;
		for (const row of rows) {
			const key = this.key(row);
			const one = old.get(key) ?? this.make(row);
			old.delete(key);
			one.row = row;
			this.rows.set(key, one);
			this.columns.forEach((column, i) => column.show(row, one.cells[i], one));
			if (one.element === at)
				at = at.nextSibling;
			else
				this.body.insertBefore(one.element, at);
		}
		for (const gone of old.values())
			gone.element.remove();
		if (focused !== document.activeElement && this.body.contains(focused))
			focused.focus({ preventScroll: true });
		this.table.hidden = rows.length === 0;
		this.empty.hidden = rows.length > 0;
	}
}

// Columns' usual ways to show a value.
export const text = (of) => (row, cell) => setText(cell, of(row));
export const element = (of) => (row, cell) => cell.replaceChildren(of(row));
// A button that stays; `press` gets the row that it is of by then. `name`: what a screen reader calls it, where the label
// alone would be that of other buttons, too; it contains the label.
export const button = (label, press, { name = null, look = null } = {}) => (row, cell, one) => {
	if (!cell.firstChild)
		cell.append(make('button', { type: 'button', onclick: () => press(one.row), class: look }));
	setText(cell.firstChild, label(row));
	if (name && cell.firstChild.getAttribute('aria-label') !== name(row))
		cell.firstChild.setAttribute('aria-label', name(row));
};

// ---- numbers --------------------------------------------------------------------------------

export function number(value) {
	if (value >= 1e6)
		return `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)}M`;
	if (value >= 1e4)
		return `${(value / 1e3).toFixed(value >= 1e5 || value % 1000 === 0 ? 0 : 1)}k`;
	return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

export function duration(ms) {
	if (ms === null)
		return 'never';
	if (ms < 1000)
		return ms > 0 && ms < 0.1 ? '<0.1 ms' : `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
	const seconds = ms / 1000;
	if (seconds < 120)
		return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
	if (seconds < 7200)
		return `${Math.round(seconds / 60)} min`;
	return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
