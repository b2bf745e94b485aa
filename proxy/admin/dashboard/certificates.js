// The certificates of listeners: when they expire, and whether their files can be used.
import { call } from './api.js';
import { Table, element, find, make, text } from './dom.js';

const WARN_DAYS = 21;

function state({ days, problem }) {
	if (days < 0)
		return make('span', { class: 'pill bad' }, 'expired');
	if (problem)
		return make('span', { class: 'pill bad' }, problem);
	return make('span', { class: days < WARN_DAYS ? 'pill warn' : 'pill good' }, `${days} days left`);
}

const table = new Table(find('certificates'), 'Certificates', [
	{ label: 'Listener', head: true, show: text((row) => row.listener) },
	{ label: 'Name', show: text((row) => row.name) },
	{ label: 'File', show: text((row) => row.certificate) },
	{ label: 'Expires', show: text((row) => row.expires.slice(0, 10)) },
	{ label: 'State', wide: true, show: element(state) },
], (row) => `${row.listener} ${row.certificate}`, 'No listener has a certificate.');

// Nothing where there is none.
export async function showCertificates() {
	const { certificates } = await call('status');
	find('tls').hidden = certificates.length === 0;
	table.show(certificates);
}
