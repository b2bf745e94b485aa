-- A POST of BENCH_BODY bytes of a caller drawn at random from BENCH_CALLERS. Several callers, because the unsafe requests
-- of one and the same client are forwarded one after the other: that is ordering, not cost.
local callers = tonumber(os.getenv("BENCH_CALLERS"))
local body = string.rep("b", tonumber(os.getenv("BENCH_BODY")))
local requests = {}

function init()
	math.randomseed(1)
	for i = 1, callers do
		local fields = {["X-Api-Key"] = string.format("caller-%07d", i - 1)}
		requests[i] = wrk.format("POST", nil, fields, body)
	end
end

function request()
	return requests[math.random(callers)]
end
