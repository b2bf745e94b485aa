// Lines over the last five minutes: by uPlot where the build has it, else by a plain picture of ours.
// The values of now stand in a list beside the picture, which is all that a screen reader is given.
import { make, number, setText, svg } from './dom.js';

const SPAN_S = 300;
const HEIGHT = 180;
const AGES_S = [300, 240, 180, 120, 60, 0];
const charts = new Set();

export function redrawCharts() {
	for (const chart of charts)
		chart.rebuild();
}

function ageText(age) {
	return age ? `−${age / 60} min` : 'now';
}

// The next of 1, 2, 4, 10, 20, 40, ...
function roundUp(value) {
	const ten = 10 ** Math.floor(Math.log10(value));
	return ten * [1, 2, 4, 10].find((step) => value <= step * ten);
}

function colour(element) {
	return getComputedStyle(element).color;
}

// Lengths of its marks and gaps; none: a line without gaps.
function dashes(element) {
	return getComputedStyle(element).strokeDasharray.match(/[0-9.]+/g)?.map(Number);
}

function property(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Chart {
	// series: [{ key, label }]
	constructor(parent, series) {
		this.legend = make('ul', { class: 'legend' });
		this.plot = make('div', { class: 'plot', 'aria-hidden': 'true' });
		parent.replaceChildren(this.legend, this.plot);
		this.times = [];
		this.values = new Map();
		this.setSeries(series);
		new ResizeObserver(() => this.resize()).observe(this.plot);
		charts.add(this);
	}

	setSeries(series) {
		this.series = series;
		for (const { key } of series) {
			if (!this.values.has(key))
				this.values.set(key, this.times.map(() => 0));
		}
		this.items = series.map(({ label }, i) => {
			const value = make('b', {}, '0');
			const swatch = svg('svg', { class: `swatch series-${i + 1}`, viewBox: '0 0 30 4', 'aria-hidden': 'true' },
				svg('line', { x1: 0, x2: 30, y1: 2, y2: 2 }));
			return { value, swatch, item: make('li', {}, swatch, make('span', { title: label }, label), value) };
		});
		this.legend.replaceChildren(...this.items.map((one) => one.item));
		this.rebuild();
	}

	// values: by key; those that are not there are 0.
	push(time, values) {
		this.times.push(time);
		const cut = this.times.findIndex((one) => one >= time - SPAN_S);
		this.times.splice(0, cut);
		for (const key of Object.keys(values)) {
			if (!this.values.has(key))
				this.values.set(key, this.times.slice(1).map(() => 0));
		}
		for (const [key, kept] of this.values) {
			kept.push(values[key] ?? 0);
			kept.splice(0, kept.length - this.times.length);
		}
		this.items.forEach((one, i) => setText(one.value, number(values[this.series[i].key] ?? 0)));
		this.draw();
	}

	// The keys with the highest sums in what is shown, highest first.
	busiest(count) {
		const sums = [...this.values].map(([key, kept]) => [key, kept.reduce((sum, one) => sum + one, 0)]);
		for (const [key, sum] of sums) {
			if (sum === 0 && !this.series.some((one) => one.key === key))
				this.values.delete(key);
		}
		return sums.filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).slice(0, count).map(([key]) => key);
	}

	data() {
		return [this.times, ...this.series.map(({ key }) => this.values.get(key))];
	}

	rebuild() {
		this.uplot?.destroy();
		this.uplot = null;
		this.plot.replaceChildren();
		if (typeof uPlot === 'function' && this.plot.clientWidth > 0)
			this.uplot = this.makeUplot();
		this.draw();
	}

	makeUplot() {
		const axis = { stroke: property('--quiet'), grid: { stroke: property('--grid'), width: 1 },
			ticks: { show: false }, font: '11px system-ui, sans-serif' };
		const lines = this.items.map((one) => ({ stroke: colour(one.swatch), dash: dashes(one.swatch), width: 1.75,
			points: { show: false } }));
		// eslint-disable-next-line no-undef
		return new uPlot({
			width: this.plot.clientWidth, height: HEIGHT, legend: { show: false }, cursor: { show: false },
			scales: { x: { time: false, range: (_, low, high) => [(high ?? SPAN_S) - SPAN_S, high ?? SPAN_S] },
				y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
			axes: [{ ...axis, size: 24, splits: (_, at, low, high) => AGES_S.map((age) => high - age),
				values: () => AGES_S.map(ageText) }, { ...axis, size: 44, values: (_, marks) => marks.map((mark) => mark < 1 ? Number(mark.toFixed(2)) : number(mark)) }],
			series: [{}, ...lines],
		}, this.data(), this.plot);
	}

	resize() {
		if (this.uplot && this.plot.clientWidth > 0)
			this.uplot.setSize({ width: this.plot.clientWidth, height: HEIGHT });
		else
			this.rebuild();
	}

	draw() {
		if (this.uplot)
			this.uplot.setData(this.data());
		else if (this.plot.clientWidth > 0)
			this.plot.replaceChildren(this.picture());
	}

	picture() {
		const width = this.plot.clientWidth;
		const last = this.times.at(-1) ?? 0;
		const lists = this.series.map(({ key }) => this.values.get(key));
		const most = roundUp(Math.max(1, ...lists.flat()));
		const x = (time) => 44 + (width - 50) * (1 + (time - last) / SPAN_S);
		const y = (value) => HEIGHT - 20 - (HEIGHT - 30) * value / most;
		const paths = lists.map((kept, i) => svg('path', { class: `series-${i + 1}`,
			d: kept.map((value, at) => `${at ? 'L' : 'M'}${x(this.times[at]).toFixed(1)} ${y(value).toFixed(1)}`).join('') }));
		const marks = [0, most / 2, most].map((value) => [
			svg('line', { x1: 44, x2: width - 6, y1: y(value), y2: y(value) }),
			svg('text', { x: 38, y: y(value) + 4, 'text-anchor': 'end' }, number(value))]);
		const times = ['−5 min', '', 'now'].map((text, i) => svg('text', { x: 44 + (width - 50) * i / 2, y: HEIGHT - 4,
			'text-anchor': ['start', 'middle', 'end'][i] }, text));
		return svg('svg', { viewBox: `0 0 ${width} ${HEIGHT}` }, ...marks.flat(), ...times, ...paths);
	}
}
