// Loaded before the suite: servers without a host listen on loopback instead of all interfaces.
'use strict';

const net = require('node:net');

// Hooks below `listen`, after everything but the address is settled: a host name would be resolved
// first, and the suite reads the port immediately.
const bind = net.Server.prototype._listen2;
if (typeof bind !== 'function') throw new Error('this node binds in another way');

net.Server.prototype._listen2 = function (address, port, addressType, ...rest) {
  const everywhere = !address && port >= 0;
  return bind.call(this, everywhere ? '127.0.0.1' : address, port, everywhere ? 4 : addressType, ...rest);
};
