// A page in the browser whose path is the first argument, driven line by line: a JSON list of an action's name and its
// arguments on standard input, its result on standard output. Texts are compared in the page, and waited for.
import readline from 'node:readline';
import { chromium } from 'playwright-core';

const DEADLINE_MS = Number(process.argv[3]);
const browser = await chromium.launch({ executablePath: process.argv[2], args: ['--no-sandbox', '--disable-gpu'] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(DEADLINE_MS);
const page = await context.newPage();
let seen = { requests: [], errors: [], dialogs: 0 };

page.on('request', (request) => seen.requests.push(request.url()));
page.on('pageerror', (error) => seen.errors.push(String(error)));
page.on('console', (message) => {
	if (message.type() === 'error')
		seen.errors.push(message.text());
});
page.on('dialog', (dialog) => {
	seen.dialogs++;
	dialog.dismiss();
});

const actions = {
	open: (url) => page.goto(url).then(() => null),
	reload: () => page.reload().then(() => null),
	text: (of) => page.locator(of).first().innerText(),
	count: (of) => page.locator(of).count(),
	value: (of) => page.locator(of).inputValue(),
	click: (of) => page.locator(of).first().click().then(() => null),
	type: (of, text) => page.locator(of).fill(text).then(() => null),
	choose: (of, value) => page.locator(of).selectOption(value).then(() => null),
	press: (key) => page.keyboard.press(key).then(() => null),
	// Until the text of the first such element matches the pattern.
	wait: async (of, pattern) => {
		await page.waitForFunction(([one, like]) => [...document.querySelectorAll(one)].some(
			(element) => new RegExp(like).test(element.textContent)), [of, pattern]);
		return null;
	},
	gone: (of) => page.locator(of).first().waitFor({ state: 'hidden' }).then(() => null),
	run: (script) => page.evaluate(script),
	focused: () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent),
	size: (width, height) => page.setViewportSize({ width, height }).then(() => null),
	colours: (forced) => page.emulateMedia({ forcedColors: forced }).then(() => null),
	theme: (scheme) => page.emulateMedia({ colorScheme: scheme }).then(() => null),
	// What a screen reader is given.
	outline: (of) => page.locator(of).ariaSnapshot(),
	picture: (path, whole) => page.screenshot({ path, fullPage: whole }).then(() => null),
	seen: () => {
		const found = seen;
		seen = { requests: [], errors: [], dialogs: 0 };
		return found;
	},
};

process.stdout.write('"ready"\n');
for await (const line of readline.createInterface({ input: process.stdin })) {
	const [name, ...rest] = JSON.parse(line);
	let answer;
	try {
		answer = { result: await actions[name](...rest) };
	} catch (error) {
		answer = { error: String(error), page: (await page.locator('body').innerText().catch(() => '')).slice(0, 3000) };
	}
	process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
