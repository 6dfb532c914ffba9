// The limited handlers in Express: node express_app.js HANDLERS PORT
'use strict';

const fs = require('fs');
const cookie = require('cookie');
const express = require('express');

const handlers = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const app = express();

function token(header) {
  const parts = (header || '').split(' ');
  return parts.length === 2 && /^Bearer$/i.test(parts[0]) ? parts[1] : null;
}

function text(value) { // an array of one is that one wherever a string is wanted
  return value === undefined ? null : String(value);
}

function ascii(json) {
  return json.replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function answer(name) {
  return (req, res) => {
    const said = ascii(JSON.stringify({
      handler: name, method: req.method, path: req.path, name: text(req.params.name),
      header: text(req.get('X-Api-Key')), plan: text(req.get('X-Plan')),
      cookie: text(cookie.parse(req.get('Cookie') || '').sid), query: text(req.query.k),
      token: token(req.get('Authorization')),
    }));
    res.set('X-Read', said).type('json').send(said);
  };
}

// What path-to-regexp takes for its own is escaped; the path is looked up as it comes, so it is written
// as clients send it.
function pattern(path) {
  return encodeURI(path).replace('%5B', '[').replace('%5D', ']').replace('%7C', '|')
    .replace('%5E', '^').replace(/%60/g, '`').replace(/%22/g, '"')
    .replace(/[:*+?()[\]$^|]/g, '\\$&');
}

for (const one of handlers) {
  app[one.method.toLowerCase()](pattern(one.path), answer(one.name));
}
app.get('/v1/report.:suffix?', answer('report'));
app.get('/u/:name', answer('user'));
app.get('/f/:name(.+)', answer('files'));
app.listen(Number(process.argv[3]), '127.0.0.1');
