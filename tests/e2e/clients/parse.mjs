// Reads responses' rate-limit fields with the parsers that clients use, and prints them as JSON.
//   node parse.mjs URL COUNT     asks COUNT times, one after the other
import { parseRateLimit } from 'ratelimit-header-parser';
import { parseList } from 'structured-headers';

// A list of strings, each with its parameters: [[name, { parameter: value }]]
function list(value) {
	if (value === null) return null;
	try {
		return parseList(value).map(([item, parameters]) => [item, Object.fromEntries(parameters)]);
	} catch (error) {
		return { error: String(error), value };
	}
}

async function ask(url) {
	const before = Date.now();
	const response = await fetch(url);
	const after = Date.now();
	await response.arrayBuffer();
	const info = parseRateLimit(response.headers);
	return {
		status: response.status,
		retry_after: response.headers.get('retry-after'),
		policy: list(response.headers.get('ratelimit-policy')),
		state: list(response.headers.get('ratelimit')),
		// The parser adds whole seconds to now: told as what it added, at least and at most.
		plain: info && {
			limit: info.limit, remaining: info.remaining, used: info.used,
			reset_s: info.reset && [(info.reset - after) / 1000, (info.reset - before) / 1000],
		},
	};
}

const [url, count] = process.argv.slice(2);
const answers = [];
while (answers.length < count) answers.push(await ask(url));
console.log(JSON.stringify(answers));
