-- Asks for its URL, or for as many paths below it as its first argument says, in turn; with a second one,
-- so many milliseconds after the answer before.
function init(args)
    local n_paths = tonumber(args[1])
    local pause_ms = tonumber(args[2])
    if pause_ms then
        function delay()
            return pause_ms
        end
    end
    if not n_paths then
        return
    end
    local requests = {}
    for i = 1, n_paths do
        requests[i] = wrk.format("GET", wrk.path .. "/" .. i)
    end
    local last = 0
    function request()
        last = last % n_paths + 1
        return requests[last]
    end
end

-- Tells what a run of wrk measured as one line of JSON on stderr; its own report goes to stdout.
function done(summary, latency, requests)
    local errors = summary.errors
    io.stderr:write(string.format(
        '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,'
            .. '"not_ok":%d,"socket_errors":%d,"timeouts":%d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
