// A server and a client of gRPC (@grpc/grpc-js), whose messages are bytes.
//   node grpc.mjs server                      prints its port; /t.Echo/{Unary,Fail,Later,Slow,Chat,Cancelled}
//   node grpc.mjs client ADDRESS METHOD [JSON] prints what came of one call
import grpc from '@grpc/grpc-js';

const same = bytes => Buffer.from(bytes);
const path = name => `/t.Echo/${name}`;
const of = (name, streams) => ({
  path: path(name), requestStream: streams, responseStream: streams,
  requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same,
});

function serve() {
  const names = ['Unary', 'Fail', 'Later', 'Slow', 'Cancelled'];
  const service = {Chat: of('Chat', true)};
  for (const name of names)
    service[name] = of(name, false);
  let cancelled = 0;
  const server = new grpc.Server();
  server.addService(service, {
    Unary(call, done) {
      const trailer = new grpc.Metadata();
      trailer.set('x-trailer', 'late');
      call.sendMetadata(new grpc.Metadata());
      done(null, call.request, trailer);
    },
    Fail: (call, done) => done({code: grpc.status.FAILED_PRECONDITION, details: 'not ready'}),
    Later: (call, done) => done(null, call.request),
    Slow: call => call.on('cancelled', () => cancelled++),
    Cancelled: (call, done) => done(null, Buffer.from(String(cancelled))),
    Chat: call => call.on('data', bytes => call.write(bytes)).on('end', () => call.end()),
  });
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error)
      throw error;
    console.log(port);
  });
  process.stdin.on('end', () => process.exit(0)).resume();
}

// `twice`: the call before that counts is the same.
function ask(address, name, {bytes = 'hello', deadline_ms, messages = 3, retries, twice, metadata = {}} = {}) {
  const policy = retries && {methodConfig: [{name: [{}], retryPolicy: {
    maxAttempts: retries, initialBackoff: '30s', maxBackoff: '60s', backoffMultiplier: 1,
    retryableStatusCodes: ['RESOURCE_EXHAUSTED', 'UNAVAILABLE']}}]};
  const client = new grpc.Client(address, grpc.credentials.createInsecure(),
    policy ? {'grpc.service_config': JSON.stringify(policy)} : {});
  const fields = new grpc.Metadata();
  for (const [key, value] of Object.entries(metadata))
    fields.set(key, value);
  const options = deadline_ms ? {deadline: Date.now() + deadline_ms} : {};
  const result = {messages: []};
  const finish = () => {
    console.log(JSON.stringify(result));
    client.close();
  };
  const watch = call => call
    .on('metadata', head => result.head = head.getMap())
    .on('status', status => {
      Object.assign(result, {code: status.code, details: status.details, trailers: status.metadata.getMap()});
      finish();
    });
  if (twice) {
    client.makeUnaryRequest(path(name), same, same, Buffer.from(bytes), fields, options, () => once());
    return;
  }
  once();

  function once() {
    if (name !== 'Chat')
      unary();
    else
      chat();
  }

  function unary() {
    watch(client.makeUnaryRequest(path(name), same, same, Buffer.from(bytes), fields, options,
      (error, answer) => answer && result.messages.push(answer.toString())));
  }

  function chat() {
    const call = client.makeBidiStreamRequest(path(name), same, same, fields, options);
    watch(call).on('error', () => {}).on('data', answer => {
      result.messages.push(answer.toString());
      if (result.messages.length < messages)
        call.write(Buffer.from(bytes + result.messages.length));
      else
        call.end();
    });
    call.write(Buffer.from(bytes + 0));
  }
}

const [mode, address, name, options] = process.argv.slice(2);
if (mode === 'server')
  serve();
else
  ask(address, name, options ? JSON.parse(options) : {});
