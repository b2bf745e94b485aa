// The dialogs: one for the token, one for a caller or a limit.
import { setToken } from './api.js';
import { find, make, setText } from './dom.js';

const dialog = find('dialog');
let refresh = null;
let timer = 0;

export function say(text, kind = '') {
	const message = find('dialog-message');
	setText(message, text);
	message.className = kind;
}

// Shows what `fill(body)` makes; it is called again each second while the dialog is open.
export function open(title, fill) {
	setText(find('dialog-title'), title);
	say('');
	find('dialog-body').replaceChildren();
	refresh = fill;
	if (!dialog.open)
		dialog.showModal();
	again();
}

export async function again() {
	clearTimeout(timer);
	const mine = refresh;
	if (!mine)
		return;
	try {
		await mine(find('dialog-body'));
	} catch (error) {
		say(error.message, 'bad');
	}
	if (refresh === mine) {
		clearTimeout(timer);
		timer = setTimeout(again, 1000);
	}
}

// Runs what a button does, and says how it went.
export async function run(action) {
	try {
		say(await action(), 'good');
	} catch (error) {
		say(error.message, 'bad');
	}
	await again();
}

dialog.addEventListener('close', () => {
	refresh = null;
	clearTimeout(timer);
});
find('dialog-close').addEventListener('click', () => dialog.close());

// ---- the token ------------------------------------------------------------------------------

let answer = null;

// Resolves to what is typed in. Several requests share one prompt.
export function askForToken(wasWrong) {
	answer ??= new Promise((resolve) => {
		const prompt = find('token');
		setText(find('token-wrong'), wasWrong ? 'This token is not known.' : '');
		find('token-text').value = '';
		prompt.showModal();
		prompt.querySelector('form').onsubmit = () => {
			answer = null;
			find('sign-out').hidden = false;
			resolve(find('token-text').value.trim());
		};
	});
	return answer;
}

// There is nothing behind it without a token.
find('token').addEventListener('cancel', (event) => event.preventDefault());
find('sign-out').addEventListener('click', () => {
	setToken(null);
	location.reload();
});

export const field = (label, input) => make('label', {}, `${label} `, input);
