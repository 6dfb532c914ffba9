-- Asks for its URL. Options, as words NAME=VALUE behind the URL:
--   paths=N     as many paths below it as that, in turn
--   spent=PATH  every second request asks below PATH instead
--   upload=N    POST, with a body of N bytes
local function options(args)
    local found = {}
    for _, word in ipairs(args) do
        local name, value = word:match("^(%a+)=(.+)$")
        found[name] = tonumber(value) or value
    end
    return found
end

local function in_turn(n_paths, spent)
    local requests = {}
    for i = 1, n_paths do
        local path = spent and i % 2 == 0 and spent or wrk.path
        requests[i] = wrk.format("GET", path .. "/" .. i)
    end
    local last = 0
    function request()
        last = last % n_paths + 1
        return requests[last]
    end
end

function init(args)
    local given = options(args)
    if given.upload then
        local whole = wrk.format("POST", wrk.path, {}, string.rep("x", given.upload))
        function request()
            return whole
        end
    end
    if given.paths then
        in_turn(given.paths, given.spent)
    end
end

-- Tells what a run of wrk measured as one line of JSON on stderr; its own report goes to stdout.
function done(summary, latency, requests)
    local errors = summary.errors
    io.stderr:write(string.format(
        '{"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%d,"p99_us":%d,'
            .. '"not_ok":%d,"socket_errors":%d,"timeouts":%d}\n',
        summary.requests, summary.duration, summary.bytes,
        latency:percentile(50), latency:percentile(99),
        errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
