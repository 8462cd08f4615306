// Loaded before the suite: servers that name no host listen on loopback instead of every interface.
'use strict';

const net = require('node:net');

const listen = net.Server.prototype.listen;
const loopback = '127.0.0.1';

net.Server.prototype.listen = function (...args) {
  const [first, second] = args;
  if (typeof first === 'object' && first !== null) {
    if (first.port !== undefined && !first.host) args[0] = { ...first, host: loopback };
  } else if (typeof first === 'number') {
    if (second === undefined || second === null) args[1] = loopback;
    else if (typeof second !== 'string') args.splice(1, 0, loopback);
  }
  return listen.apply(this, args);
};
