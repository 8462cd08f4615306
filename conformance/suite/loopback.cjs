// Loaded before the suite: servers that name no host listen on loopback instead of every interface.
'use strict';

const net = require('node:net');

// Below `listen`, where everything is settled but the address: naming a host there would look it up first, and the
// suite asks for the port at once.
const bind = net.Server.prototype._listen2;
if (typeof bind !== 'function') throw new Error('this node binds in another way');

net.Server.prototype._listen2 = function (address, port, addressType, ...rest) {
  const everywhere = !address && port >= 0;
  return bind.call(this, everywhere ? '127.0.0.1' : address, port, everywhere ? 4 : addressType, ...rest);
};
