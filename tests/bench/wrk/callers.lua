-- A request of a caller drawn at random from BENCH_CALLERS, for the path of the URL.
local callers = tonumber(os.getenv("BENCH_CALLERS"))
local requests = {}

function init()
	math.randomseed(1)
	for i = 1, callers do
		requests[i] = wrk.format("GET", nil, {["X-Api-Key"] = string.format("caller-%07d", i - 1)})
	end
end

function request()
	return requests[math.random(callers)]
end
