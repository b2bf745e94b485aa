// The nodes that share limits, their store, and what decides each of these limits now.
import { call } from './api.js';
import { Table, duration, element, find, make, number, setText, text } from './dom.js';

const nodeTable = new Table(find('nodes'), 'Nodes', [
	{ label: 'Node', head: true, show: text((row) => row.self ? `${row.name} (this one)` : row.name) },
	{ label: 'Lease', number: true, show: text((row) => duration(row.lease_ms)) },
], (row) => row.name, 'No node has joined.');

const rung = (row) => make('span', { class: row.rung === 'store' ? 'pill good' : 'pill warn' }, row.rung);

const rungTable = new Table(find('rungs'), 'Limits of the fleet', [
	{ label: 'Limit', head: true, show: text((row) => row.name) },
	{ label: 'Decided by', show: element(rung) },
	{ label: 'Without the store', show: text((row) => row.store_down) },
	{ label: 'Quota', number: true, show: text((row) => number(row.quota)) },
	{ label: 'Share', number: true, show: text((row) => number(row.share)) },
], (row) => row.name, 'No limit is judged by the store.');

const replicaTable = new Table(find('replicas'), 'Replicas of the store', [
	{ label: 'Replica', head: true, show: text((row) => row.address) },
	{ label: 'State', show: text((row) => row.online ? 'online' : 'not online') },
	{ label: 'Behind, bytes', number: true, show: text((row) => number(row.behind_bytes)) },
], (row) => row.address, 'The store has no replicas.');

function store({ store: address, health, leases, trouble, eviction, connected_workers: connected, workers }) {
	const heard = health ? `${health.primary}, answered ${duration(health.answered_ms)} ago in ` +
		`${number(health.round_trip_us / 1000)} ms` : address;
	const away = trouble ? ` · for ${duration(trouble.lasts_ms)}: ${trouble.why}` : '';
	const evicts = eviction ? ` · may evict keys (maxmemory-policy ${eviction})` : '';
	return `Store ${heard} · ${connected} of ${workers} workers connected${away}${evicts} · ` +
		`${number(leases.units)} units of ${number(leases.callers)} callers on lease`;
}

// Shows what this node knows of its fleet; nothing where there is none.
export async function showFleet(exists) {
	find('fleet').hidden = !exists;
	if (!exists)
		return;
	const fleet = await call('fleet');
	setText(find('fleet-store'), store(fleet));
	nodeTable.show(fleet.nodes);
	rungTable.show(fleet.limits);
	replicaTable.show(fleet.replicas);
}
