-- nginx's access phase for one limit in Redis: one EVALSHA a request over a pooled cosocket.
-- The replies read here are integers and errors, all that the script can answer.
local redis_limit = {}

local function command(...)
    local parts = {...}
    local out = {'*', #parts, '\r\n'}
    for _, part in ipairs(parts) do
        local text = tostring(part)
        out[#out + 1] = '$' .. #text .. '\r\n' .. text .. '\r\n'
    end
    return out
end

local function ask(socket, ...)
    local sent, err = socket:send(command(...))
    if not sent then
        return nil, err
    end
    local line
    line, err = socket:receive()
    if not line then
        return nil, err
    end
    if line:byte() == 45 then -- '-': an error
        return nil, line
    end
    return tonumber(line:sub(2))
end

-- @options: host, port, key (nginx's variable), script, sha1 (of the script, in hex), rate, burst.
-- Ends the request with 429 or 503, or returns.
function redis_limit.check(options)
    local socket = ngx.socket.tcp()
    socket:settimeouts(1000, 1000, 1000)
    local connected = socket:connect(options.host, options.port)
    if not connected then
        return ngx.exit(503)
    end

    local key = 'bench:{' .. ngx.var[options.key] .. '}'
    local allowed, err = ask(socket, 'EVALSHA', options.sha1, 1, key, options.rate, options.burst)
    if err and err:find('NOSCRIPT', 1, true) then
        allowed = ask(socket, 'EVAL', options.script, 1, key, options.rate, options.burst)
    end
    if not allowed then
        return ngx.exit(503)
    end

    socket:setkeepalive(300000, 128)
    if allowed == 0 then
        return ngx.exit(429)
    end
end

return redis_limit
