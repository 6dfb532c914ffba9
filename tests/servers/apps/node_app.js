// The limited handlers with Node's http alone: node node_app.js HANDLERS PORT
'use strict';

const fs = require('fs');
const http = require('http');

const handlers = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));

function ascii(json) {
  return json.replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function sid(header) {
  for (const one of (header || '').split(';')) {
    const [name, ...rest] = one.trim().split('=');
    if (name === 'sid') return rest.join('=');
  }
  return null;
}

function find(method, path) {
  for (const one of handlers) {
    if (one.path === path && (one.method === method || (one.method === 'GET' && method === 'HEAD'))) {
      return [one.name, null];
    }
  }
  if (method !== 'GET' && method !== 'HEAD') return null;
  if (/^\/v1\/report(\.\w+)?$/.test(path)) return ['report', null];
  const user = /^\/u\/([^/]+)$/.exec(path);
  if (user) return ['user', user[1]];
  const file = /^\/f\/(.+)$/.exec(path);
  return file && ['files', file[1]];
}

http.createServer((req, res) => {
  let url, path;
  try {
    url = new URL(req.url, 'http://localhost');
    path = decodeURIComponent(url.pathname);
  } catch (error) {
    res.writeHead(400).end();
    return;
  }
  const found = find(req.method, path);
  if (!found) {
    res.writeHead(404).end();
    return;
  }
  const bearer = /^Bearer +(.+)$/i.exec(req.headers.authorization || '');
  const said = ascii(JSON.stringify({
    handler: found[0], method: req.method, path, name: found[1],
    header: req.headers['x-api-key'] ?? null, plan: req.headers['x-plan'] ?? null,
    cookie: sid(req.headers.cookie), query: url.searchParams.get('k'),
    token: bearer && bearer[1].trim(),
  }));
  res.writeHead(200, { 'Content-Type': 'application/json', 'X-Read': said });
  res.end(said);
}).listen(Number(process.argv[3]), '127.0.0.1');
