// The page: what comes once a second is shown, and what is shown can be acted on.
import { Refused, call, follow, hasToken, onTokenNeeded } from './api.js';
import { bindSearch, openCaller } from './caller.js';
import { Chart, redrawCharts } from './charts.js';
import { askForToken, run, open } from './dialog.js';
import { Table, bar, button, duration, element, find, make, number, setText, spark, text } from './dom.js';
import { showCertificates } from './certificates.js';
import { showFleet } from './fleet.js';
import { openLimit } from './limit.js';

const CALLERS = 12;
const SPARKS = 60;
const LIMITS_SHOWN = 6;
const STALE_MS = 3500; // figures come once a second
const SILENCE_MS = 15000; // then another connection is tried

let settings = new Map(); // of limits, by name
let plans = [];
let inFleet = false;
let reloads = null;
let limits = [];
let last = null; // second
let heardAt = 0; // when it came; 0: none has
let isConnected = false;
let listening = new AbortController();
let askedAt = 0;

onTokenNeeded(askForToken);

// ---- theme ----------------------------------------------------------------------------------

const prefersDark = matchMedia('(prefers-color-scheme: dark)');

function setTheme(dark) {
	document.documentElement.dataset.theme = dark ? 'dark' : 'light';
	find('theme').setAttribute('aria-pressed', String(dark));
	redrawCharts();
}

const isDark = () => (localStorage.getItem('sluice-theme') ?? (prefersDark.matches ? 'dark' : 'light')) === 'dark';
setTheme(isDark());
prefersDark.addEventListener('change', () => setTheme(isDark()));
matchMedia('(forced-colors: active)').addEventListener('change', redrawCharts);
find('theme').addEventListener('click', () => {
	localStorage.setItem('sluice-theme', isDark() ? 'light' : 'dark');
	setTheme(isDark());
});

// ---- parts ----------------------------------------------------------------------------------

const charts = {
	requests: new Chart(find('requests-chart'), [{ key: 'admitted', label: 'admitted' },
		{ key: 'refused', label: 'refused' }, { key: 'denied', label: 'denied' }]),
	refusals: new Chart(find('refusals-chart'), []),
	queue: new Chart(find('queue-chart'), [{ key: 'queued', label: 'waiting' }, { key: 'flight', label: 'in flight' }]),
	waits: new Chart(find('waits-chart'), [{ key: 'mean', label: 'mean' }, { key: 'p99', label: '99 of 100 below' }]),
};

const tiles = new Map(['Requests a second', 'Refused', 'Waiting', 'In flight', 'Connections', 'Servers up'].map((label) => {
	const value = make('dd', {}, '–');
	find('tiles').append(make('div', {}, make('dt', {}, label), value));
	return [label, value];
}));

const share = (part, whole) => whole ? `${(100 * part / whole).toFixed(part && part < whole / 10 ? 1 : 0)} %` : '–';
const rate = (value) => number(Math.round(value * 10) / 10);

const routes = new Map(); // name: its last values, for the line
const routeTable = new Table(find('routes'), 'Routes', [
	{ label: 'Route', head: true, show: text((row) => row.name === '-' ? 'no route' : row.name) },
	{ label: 'Last minute', wide: true, show: element((row) => spark(row.kept)) },
	{ label: 'Requests/s', number: true, show: text((row) => rate(row.all)) },
	{ label: 'Refused', number: true, show: text((row) => share(row.refused, row.all)) },
	{ label: '5xx', number: true, show: text((row) => share(row.errors, row.all)) },
	{ label: 'Mean time', number: true, show: text((row) => row.all ? duration(row.mean) : '–') },
	{ label: '99 of 100 below', number: true, show: text((row) => row.p99 ? duration(row.p99) : '–') },
	{ label: 'Mean wait', number: true, show: text((row) => row.all ? duration(row.wait) : '–') },
], (row) => row.name, 'No request has come yet.');

const limitTable = new Table(find('limits'), 'Limits', [
	{ label: 'Limit', head: true, show: text((row) => row.name) },
	{ label: 'Amount', show: text((row) => row.amount + (row.changed ? ' (changed)' : '')) },
	{ label: 'Mode', show: text((row) => row.shadow ? 'shadow' : 'enforced') },
	{ label: 'Admitted/s', number: true, show: text((row) => rate(row.admitted)) },
	{ label: 'Refused/s', number: true, show: text((row) => rate(row.refused)) },
	{ label: 'Shadow/s', number: true, show: text((row) => rate(row.shadowed)) },
	{ label: 'Callers', wide: true, show: element((row) => bar(row.callers, row.capacity)) },
	{ label: 'Change', show: button(() => 'Edit', (row) => editLimit(row.name),
		{ name: (row) => `Edit limit ${row.name}` }) },
], (row) => row.name, 'There are no limits.');

const callerTable = new Table(find('callers'), 'Busiest callers', [
	{ label: 'Caller', head: true, show: button((row) => row.caller, (row) => openCaller(row.caller, plans),
		{ look: 'link', name: (row) => `${row.caller} of limit ${row.limit}` }) },
	{ label: 'Address', name: true, show: text((row) => row.address) },
	{ label: 'Limit', name: true, show: text((row) => row.limit) },
	{ label: 'Window', wide: true, show: element((row) => bar(row.used, row.quota)) },
	{ label: 'Admitted', number: true, show: text((row) => number(row.admitted)) },
	{ label: 'Refused', number: true, show: text((row) => number(row.refused)) },
	{ label: 'Shadow', number: true, show: text((row) => number(row.shadow_refused)) },
	{ label: 'Now', show: text((row) => row.banned ? `banned for ${duration(row.banned_ms)}` :
		row.used >= row.quota ? 'used up' : 'has room') },
], (row) => `${row.limit} ${row.caller}`, 'No limit has judged a request lately.');

function health(row) {
	if (row.mode !== 'enabled')
		return make('span', { class: 'pill warn' }, row.mode);
	return make('span', { class: row.up ? 'pill good' : 'pill bad' }, row.up ? 'up' : 'down');
}

function operationName(row) {
	return row.mode === 'enabled' ? 'Drain' : 'Enable';
}

const upstreamTable = new Table(find('upstreams'), 'Upstreams', [
	{ label: 'Server', head: true, show: text((row) => row.address) },
	{ label: 'Upstream', name: true, show: text((row) => row.upstream) },
	{ label: 'Health', show: element(health) },
	{ label: 'In flight', number: true, show: text((row) => number(row.in_flight)) },
	{ label: 'Upstream: waiting', number: true, show: text((row) => number(row.queued)) },
	{ label: 'Answers/s', number: true, show: text((row) => rate(row.responses)) },
	{ label: 'Failures/s', number: true, show: text((row) => rate(row.failures)) },
	{ label: 'Change', show: button(operationName, changeServer,
		{ name: (row) => `${operationName(row)} ${row.address} of ${row.upstream}` }) },
], (row) => serverName(row), 'There are no upstreams.');

const inService = (server) => server.up && server.mode === 'enabled';

// Would nothing serve the upstream without it?
function isLastOf(row) {
	const upstream = last.upstreams.find((one) => one.upstream === row.upstream);
	return inService(row) && upstream !== undefined && upstream.servers.filter(inService).length === 1;
}

function changeServer(row) {
	const operation = operationName(row).toLowerCase();
	const path = `upstreams/${encodeURIComponent(row.upstream)}/servers/${encodeURIComponent(row.address)}/${operation}`;
	const change = () => run(async () => `It is ${(await call(path, 'POST')).mode}.`);
	const asks = operation === 'drain' && isLastOf(row);
	const parts = [make('p', {}, operation === 'drain' ?
		'It gets no new clients, and keeps the sessions that are bound to it, until it is enabled or sluice starts again.' :
		'It is used again.')];
	if (asks)
		parts.unshift(make('p', { class: 'verdict bad', id: 'last-server' },
			`It is the only server of ${row.upstream} in service. While it drains, new clients of ${row.upstream} get 503.`));
	const confirm = make('p', { class: 'actions' }, make('button', { type: 'button', id: 'confirm', onclick: () => {
		confirm.remove();
		change();
	} }, `Drain the only server of ${row.upstream}`));
	open(`Server ${row.address} of ${row.upstream}`, (body) => body.firstChild ?? body.replaceChildren(...parts, asks ? confirm : ''));
	return asks ? undefined : change();
}

function editLimit(name) {
	openLimit(name, settings.get(name) ?? {}, () => readConfiguration());
}

// ---- what comes each second -----------------------------------------------------------------

function showRoutes(second, by) {
	for (const row of second.routes) {
		if (!routes.has(row.route))
			routes.set(row.route, { name: row.route, kept: [] });
	}
	for (const [name, kept] of routes) {
		const row = second.routes.find((one) => one.route === name);
		const all = row ? Object.values(row.verdicts).reduce((sum, one) => sum + one, 0) * by : 0;
		kept.kept = [...kept.kept, all].slice(-SPARKS);
		Object.assign(kept, { all, refused: (row?.verdicts.refuse ?? 0) * by, errors: (row?.statuses['5xx'] ?? 0) * by,
			mean: row?.duration.mean_ms ?? 0, p99: row?.duration.p99_ms ?? 0, wait: row?.queue_wait.mean_ms ?? 0 });
		// What has had nothing for a minute, and is perhaps no longer there.
		if (kept.kept.length === SPARKS && kept.kept.every((one) => one === 0))
			routes.delete(name);
	}
	routeTable.show([...routes.values()]);
}

function showRequests(time, second, by) {
	const sum = { admitted: 0, refused: 0, denied: 0 };
	let waited = 0, waits = 0, p99 = 0;
	for (const { verdicts, queue_wait: wait } of second.routes) {
		sum.admitted += (verdicts.admit + verdicts.delay + verdicts.none) * by;
		sum.refused += verdicts.refuse * by;
		sum.denied += verdicts.deny * by;
		waited += wait.mean_ms * wait.count;
		waits += wait.count;
		p99 = Math.max(p99, wait.p99_ms ?? 0);
	}
	charts.requests.push(time, sum);
	charts.queue.push(time, { queued: second.queue.queued, flight: second.queue.in_flight });
	charts.waits.push(time, { mean: waits ? waited / waits : 0, p99: waits && waited ? p99 : 0 });
	const all = sum.admitted + sum.refused + sum.denied;
	setText(tiles.get('Requests a second'), rate(all));
	setText(tiles.get('Refused'), share(sum.refused, all));
}

function showLimits(time, second, by) {
	const refused = {};
	for (const row of second.limits)
		refused[row.limit] = row.refused * by;
	const busiest = charts.refusals.busiest(LIMITS_SHOWN);
	const shown = charts.refusals.series.map((one) => one.key);
	if (busiest.some((key) => !shown.includes(key)) && busiest.join('\n') !== shown.join('\n'))
		charts.refusals.setSeries(busiest.map((key) => ({ key, label: key })));
	charts.refusals.push(time, refused);
	showLimitTable(second, by);
}

function amount(limit) {
	const own = settings.get(limit.name);
	return own?.rate ?? (own?.concurrency ? `${own.concurrency} at once` : String(limit.amount));
}

function showLimitTable(second, by) {
	limitTable.show(limits.map((limit) => {
		const row = second.limits.find((one) => one.limit === limit.name);
		return { ...limit, amount: amount(limit), admitted: (row?.admitted ?? 0) * by, refused: (row?.refused ?? 0) * by,
			shadowed: (row?.shadow_refused ?? 0) * by };
	}));
}

const known = new Map(); // server, by its upstream and address: how it was
const serverName = (row) => `${row.upstream} ${row.address}`;

// How much a total has grown since the second before; one that is new, or that shrank with another process, not at all.
function growth(row, total) {
	return Math.max(0, row[total] - (known.get(serverName(row))?.[total] ?? row[total]));
}

function showUpstreams(second, by) {
	const rows = second.upstreams.flatMap((upstream) => upstream.servers.map((server) => ({ ...server,
		upstream: upstream.upstream, queued: upstream.queued })));
	for (const row of rows) {
		row.responses = growth(row, 'responses_total') * by;
		row.failures = growth(row, 'failures_total') * by;
	}
	upstreamTable.show(rows);
	const up = rows.filter(inService).length;
	setText(tiles.get('Servers up'), `${up} of ${rows.length}`);
	tiles.get('Servers up').className = up < rows.length ? 'bad' : '';
	const fallen = rows.filter((row) => !row.up && known.get(serverName(row))?.up === true);
	if (fallen.length)
		notify(`Down: ${fallen.map((row) => row.address).join(', ')}.`);
	for (const row of rows)
		known.set(serverName(row), row);
	if (up === rows.length)
		notify('');
}

function take(second) {
	const by = 1000 / Math.max(1, second.span_ms);
	const time = Date.parse(second.time) / 1000;
	last = second;
	heardAt = performance.now();
	showState();
	showRequests(time, second, by);
	showRoutes(second, by);
	showLimits(time, second, by);
	showUpstreams(second, by);
	setText(tiles.get('Waiting'), number(second.queue.queued));
	setText(tiles.get('In flight'), number(second.queue.in_flight));
	setText(tiles.get('Connections'), number(second.client_connections));
	if (reloads !== second.reloads) {
		reloads = second.reloads;
		readConfiguration();
	}
}

// ---- what is asked for ----------------------------------------------------------------------

async function readConfiguration() {
	try {
		const config = await call('config');
		settings = new Map(config.sections.filter((one) => one.section === 'limit').map((one) => [one.name, one.settings]));
		plans = config.sections.filter((one) => one.section === 'plan').map((one) => one.name);
		inFleet = config.sections.some((one) => one.section === 'fleet');
		const status = await call('status');
		setText(find('about'), `${status.version} · ${status.configuration} · up ${duration(status.uptime_ms)}`);
		await readLimits();
	} catch (error) {
		report(error);
	}
}

async function readLimits() {
	({ limits } = await call('limits'));
	if (last)
		showLimitTable(last, 1000 / Math.max(1, last.span_ms));
}

const sort = () => document.querySelector('input[name="sort"]:checked').value;

async function readCallers() {
	try {
		const { callers } = await call(`callers?sort=${sort()}&count=${CALLERS}`);
		callerTable.show(callers);
	} catch (error) {
		report(error);
	}
}

// ---- life -----------------------------------------------------------------------------------

// The figures are of the present only while they come.
function stateOf(age) {
	if (!isConnected)
		return heardAt ? ['connection lost', 'bad'] : ['connecting', 'bad'];
	if (age > STALE_MS)
		return ['not responding', 'bad'];
	return last.draining ? ['draining', 'warn'] : ['live', 'good'];
}

function showState() {
	const age = performance.now() - heardAt;
	const [label, kind] = stateOf(age);
	const isStale = heardAt > 0 && (!isConnected || age > STALE_MS);
	setText(find('state'), label);
	find('state').className = `pill ${kind}`;
	setText(find('age'), isStale ? `figures of ${age < 10000 ? `${Math.floor(age / 1000)} s` : duration(age)} ago` : '');
	find('main').classList.toggle('stale', isStale);
	// A connection that says nothing may be one whose peer is gone.
	if (performance.now() - Math.max(heardAt, askedAt) > SILENCE_MS)
		listening.abort();
}

function notify(sentence) {
	setText(find('notice'), sentence);
	find('notice').hidden = sentence === '';
}

function report(error) {
	if (error instanceof Refused)
		notify(error.message);
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function listen() {
	for (let wait = 500; ; wait = Math.min(5000, wait * 2)) {
		listening = new AbortController();
		askedAt = performance.now();
		try {
			await follow('events', (second) => {
				wait = 500;
				isConnected = true;
				take(second);
			}, listening.signal);
		} catch (error) {
			report(error);
		}
		isConnected = false;
		showState();
		reloads = null; // it may be another process
		await pause(wait);
	}
}

async function poll() {
	for (let count = 0; ; count++) {
		if (!document.hidden) {
			await readCallers();
			if (count % 5 === 4)
				await readLimits().catch(report);
			if (count % 5 === 0)
				await showFleet(inFleet).catch(report);
			if (count % 15 === 0)
				await showCertificates().catch(report);
		}
		await pause(1000);
	}
}

bindSearch(() => plans);
for (const choice of document.querySelectorAll('input[name="sort"]'))
	choice.addEventListener('change', readCallers);
find('sign-out').hidden = !hasToken();
setInterval(showState, 1000);
listen();
poll();
