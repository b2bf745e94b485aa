// ws from npm as a peer of sluice.
//   node websocket.mjs server            echoes; prints its port, ends with its standard input
//   node websocket.mjs client URL COUNT  sends so many messages of each kind, prints what came back
//   node websocket.mjs big URL COUNT     each of so many sockets sends 4 MB, prints their close codes
import { createHash } from 'node:crypto';
import WebSocket, { WebSocketServer } from 'ws';

const deflate = { threshold: 0 };

function serve() {
	const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: deflate });
	server.on('listening', () => console.log(server.address().port));
	server.on('connection', (socket) => {
		socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
		socket.on('error', (error) => console.error(error.message));
	});
	process.stdin.on('end', () => process.exit(0)).resume();
}

function digest(text) {
	return createHash('sha256').update(text).digest('hex');
}

function ask(url, count) {
	const socket = new WebSocket(url, { perMessageDeflate: deflate });
	const sent = [], came = [];
	socket.on('open', () => {
		for (let i = 0; i < count; i++) {
			const text = `blåbær ${i} `.repeat(1 + i * 37 % 500);
			const data = Buffer.alloc(i * 997 % 70000, i);
			socket.send(text);
			socket.send(data);
			sent.push(digest(text), digest(data));
		}
		socket.ping('alive');
	});
	let pong = '';
	socket.on('pong', (data) => { pong = data.toString(); });
	socket.on('message', (data) => {
		came.push(digest(data));
		if (came.length === sent.length)
			socket.close(4000, 'done');
	});
	socket.on('close', (code, reason) => console.log(JSON.stringify({
		same: JSON.stringify(sent) === JSON.stringify(came), messages: came.length,
		extensions: socket.extensions, code, reason: reason.toString(), pong })));
	socket.on('error', (error) => console.log(JSON.stringify({ error: error.message })));
}

function sendBig(url) {
	return new Promise((resolve) => {
		const socket = new WebSocket(url);
		socket.on('open', () => socket.send(Buffer.alloc(4e6)));
		socket.on('error', () => {});
		socket.on('close', (code) => resolve(code));
	});
}

async function big(url, count) {
	const codes = [];
	for (let i = 0; i < count; i++)
		codes.push(await sendBig(url));
	console.log(JSON.stringify(codes));
}

const [mode, url, count] = process.argv.slice(2);
if (mode === 'server')
	serve();
else if (mode === 'big')
	await big(url, Number(count));
else
	ask(url, Number(count));
