// socket.io as it comes from npm, with long polls only.
//   node socketio.mjs serve             prints its port, ends with its standard input
//   node socketio.mjs emit URL COUNT    prints the milliseconds that connecting and each emit took
import http from 'node:http';
import { Server } from 'socket.io';
import { io } from 'socket.io-client';

function serve() {
	const server = http.createServer();

	new Server(server, { transports: ['polling'] }).on('connection', (socket) => {
		socket.on('say', (text, acknowledge) => acknowledge(text));
	});
	server.listen(0, '127.0.0.1', () => console.log(server.address().port));
	process.stdin.on('end', () => process.exit(0)).resume();
}

async function emit(url, count) {
	const began = performance.now();
	const socket = io(url, { transports: ['polling'], extraHeaders: { 'X-Api-Key': 'ann' } });
	await new Promise((resolve, reject) => socket.on('connect', resolve).on('connect_error', reject));
	const times = [performance.now() - began];

	for (let number = 0; number < count; number++) {
		const from = performance.now();
		if (await socket.emitWithAck('say', number) !== number)
			throw new Error('another answer');
		times.push(performance.now() - from);
	}
	socket.disconnect();
	console.log(JSON.stringify(times));
}

const [word, url, count] = process.argv.slice(2);
if (word === 'serve')
	serve();
else
	await emit(url, Number(count));
