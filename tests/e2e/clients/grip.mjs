// A backend that uses @fanoutio/grip as it comes from npm, behind websocket = gateway: a chat room.
//   node grip.mjs CONTROL_URI KEY    prints its port, ends with its standard input
// The text `/join NAME`, `/leave NAME`, `/close` and `/detach` do what they say; `NAME: TEXT` is
// published to the channel NAME, as `/kick NAME CODE` is a close; other texts come back. Of ordinary
// requests, GET /poll and GET /stream are held on the channel `news`, and the body of a POST is
// published there.
import http from 'node:http';
import { GripInstruct, Publisher, WebSocketMessageFormat, encodeWebSocketEvents, getWebSocketContextFromNodeReq,
	isNodeReqWsOverHttp } from '@fanoutio/grip';

const [controlUri, key] = process.argv.slice(2);
const publisher = new Publisher({ control_uri: controlUri, control_iss: 'chat', key });

async function obey(context, text) {
	const [word, name, code] = text.split(' ');
	if (word === '/join')
		context.subscribe(name);
	else if (word === '/leave')
		context.unsubscribe(name);
	else if (word === '/close')
		context.close(4000);
	else if (word === '/detach')
		context.detach();
	else if (word === '/kick')
		await publisher.publishFormats(name, new WebSocketMessageFormat(null, true, Number(code)));
	else if (word.endsWith(':'))
		await publisher.publishFormats(word.slice(0, -1), new WebSocketMessageFormat(text), 'id', 'before');
	else if (word === '/bytes')
		await publisher.publishFormats(name, new WebSocketMessageFormat(new Uint8Array([0, 255, 1])));
	else
		context.send(text);
}

async function publishNews(request, response) {
	let text = '';
	for await (const chunk of request)
		text += chunk;
	await publisher.publishHttpResponse('news', text);
	await publisher.publishHttpStream('news', text);
	response.end();
}

function hold(request, response) {
	const instruct = new GripInstruct('news');
	if (request.url === '/poll')
		instruct.setHoldLongPoll(20);
	else
		instruct.setHoldStream();
	response.writeHead(200, { 'Content-Type': 'text/plain', ...instruct.toHeaders() });
	response.end(request.url === '/poll' ? 'nothing new' : 'begins\n');
}

async function answer(request, response) {
	const { isSigned } = await publisher.validateGripSig(request.headers['grip-sig']);
	if (isSigned && request.method === 'POST' && request.url === '/publish')
		return publishNews(request, response);
	if (isSigned && (request.url === '/poll' || request.url === '/stream'))
		return hold(request, response);
	if (!isSigned || !isNodeReqWsOverHttp(request)) {
		response.writeHead(403).end('expected a signed request of a gateway');
		return;
	}
	const context = await getWebSocketContextFromNodeReq(request);
	if (context.isOpening()) {
		context.accept();
		context.meta.visits = '0';
	}
	while (context.canRecv()) {
		const text = context.recv();
		if (text === null) {
			context.close();
			break;
		}
		context.meta.visits = String(Number(context.meta.visits) + 1);
		if (text === '/visits')
			context.send(context.meta.visits);
		else
			await obey(context, text);
	}
	response.writeHead(200, context.toHeaders());
	response.end(encodeWebSocketEvents(context.getOutgoingEvents()));
}

const server = http.createServer((request, response) => answer(request, response).catch((error) => {
	console.error(error.message);
	response.writeHead(500).end(error.message);
}));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
