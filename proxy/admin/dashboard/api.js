// Requests to the admin interface of this very origin, with the token that was typed in.

const KEPT = 'sluice-token';
const LONGEST_MS = 15000; // that a response may take
let token = sessionStorage.getItem(KEPT);
let askForToken = null;

// What the interface refused: its status and the sentence that it gave.
export class Refused extends Error {
	constructor(status, detail) {
		super(detail);
		this.status = status;
	}
}

// `ask` shows a prompt and resolves to a token.
export function onTokenNeeded(ask) {
	askForToken = ask;
}

export const hasToken = () => token !== null;

export function setToken(text) {
	token = text;
	if (text === null)
		sessionStorage.removeItem(KEPT);
	else
		sessionStorage.setItem(KEPT, text);
}

async function send(path, options) {
	for (;;) {
		const used = token;
		const headers = { ...options.headers };
		if (used !== null)
			headers.Authorization = `Bearer ${used}`;
		const response = await fetch(path, { signal: AbortSignal.timeout(LONGEST_MS), ...options, headers,
			cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer' });
		if (response.status !== 401)
			return response;
		await response.body?.cancel();
		// Another request may have had the prompt answered meanwhile.
		if (token === used)
			setToken(await askForToken(used !== null));
	}
}

async function problem(response) {
	let detail = `The status is ${response.status}.`;
	try {
		const body = await response.json();
		detail = [body.detail ?? detail, ...body.errors ?? []].join(' ');
	} catch {
		// not JSON: the status must do
	}
	return new Refused(response.status, detail);
}

// The JSON of a response; throws Refused, or another error where nothing answers in time.
export async function call(path, method = 'GET', body = undefined) {
	const response = await send(`/api/v1/${path}`, { method, body: body && JSON.stringify(body),
		headers: body ? { 'Content-Type': 'application/json' } : {} });
	if (!response.ok)
		throw await problem(response);
	return response.json();
}

// Calls `take` with the data of each event until the stream ends; EventSource can't send a token.
export async function follow(path, take, signal) {
	const response = await send(`/api/v1/${path}`, { signal });
	if (!response.ok)
		throw await problem(response);
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let pending = '';
	for (;;) {
		const { done, value } = await reader.read();
		if (done)
			return;
		const blocks = (pending + value).split('\n\n');
		pending = blocks.pop();
		for (const block of blocks) {
			const line = block.split('\n').find((one) => one.startsWith('data: '));
			if (line)
				take(JSON.parse(line.slice(6)));
		}
	}
}
