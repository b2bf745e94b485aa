// Asks once, by a client that retries by itself, and prints what it got in the end as JSON. Says
// `ready` first and waits for a line.
//   node retry.mjs got|axios|undici URL
import axios from 'axios';
import axiosRetry from 'axios-retry';
import got from 'got';
import { Agent, RetryAgent, request } from 'undici';

const clients = {
	// Their own defaults, but for how long undici waits without Retry-After.
	async got(url) {
		const response = await got(url);
		return { status: response.statusCode, body: response.body, retries: response.retryCount };
	},
	async axios(url) {
		const client = axios.create({ proxy: false });
		axiosRetry(client);
		const response = await client.get(url);
		return { status: response.status, body: response.data,
			retries: response.config['axios-retry'].retryCount };
	},
	async undici(url) {
		const dispatcher = new RetryAgent(new Agent(), { minTimeout: 10 });
		const response = await request(url, { dispatcher });
		return { status: response.statusCode, body: await response.body.text() };
	},
};

const [name, url] = process.argv.slice(2);
console.log('ready');
await new Promise((go) => process.stdin.once('data', go));
const before = Date.now();
const result = await clients[name](url);
console.log(JSON.stringify({ ...result, took_ms: Date.now() - before }));
process.exit(0); // not before what their pools keep open is closed
