// Starts a Kinesis emulator on 127.0.0.1 only: node kinesis_server.js NODE_MODULES kinesis-local|kinesalite PORT
const [modules, emulator, port] = process.argv.slice(2);
const net = require('net');
const listen = net.Server.prototype.listen;

// kinesis-local listens on all interfaces, whatever it is told.
net.Server.prototype.listen = function (...given) {
  if (typeof given[0] === 'number' || /^\d+$/.test(given[0])) {
    if (typeof given[1] === 'string') given[1] = '127.0.0.1';
    else given.splice(1, 0, '127.0.0.1');
  } else if (given[0] && typeof given[0] === 'object' && 'port' in given[0]) {
    given[0] = { ...given[0], host: '127.0.0.1' };
  }
  return listen.apply(this, given);
};

// kinesis-local leaves out the first event of a subscription, without which boto3 refuses the answer.
const INITIAL_RESPONSE = Buffer.from(
  'AAAAaAAAAFZOaBckDTptZXNzYWdlLXR5cGUHAAVldmVudAs6ZXZlbnQtdHlwZQcAEGluaXRpYWwtcmVzcG9uc2UNOmNvbnRlbnQtdHlwZQcAEGFw' +
    'cGxpY2F0aW9uL2pzb257ff6ULB0=',
  'base64',
);
const write = net.Socket.prototype.write;
net.Socket.prototype.write = function (data, ...given) {
  const head = Buffer.from(data).subarray(0, 2048).toString('latin1');
  const end = head.indexOf('\r\n\r\n') + 4;
  if (head.startsWith('HTTP/1.1 200') && head.slice(0, end).includes('application/vnd.amazon.eventstream')) {
    const chunk = [Buffer.from(`${INITIAL_RESPONSE.length.toString(16)}\r\n`), INITIAL_RESPONSE, Buffer.from('\r\n')];
    data = Buffer.concat([Buffer.from(data.subarray(0, end)), ...chunk, Buffer.from(data.subarray(end))]);
  }
  return write.call(this, data, ...given);
};

if (emulator === 'kinesalite') {
  const times = { createStreamMs: 20, updateStreamMs: 20, deleteStreamMs: 20, shardLimit: 2000 };
  require(`${modules}/kinesalite`)(times).listen(Number(port), '127.0.0.1');
} else {
  require(`${modules}/kinesis-local/main.js`);
}
