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

if (emulator === 'kinesalite') {
  const times = { createStreamMs: 20, updateStreamMs: 20, deleteStreamMs: 20, shardLimit: 2000 };
  require(`${modules}/kinesalite`)(times).listen(Number(port), '127.0.0.1');
} else {
  require(`${modules}/kinesis-local/main.js`);
}
