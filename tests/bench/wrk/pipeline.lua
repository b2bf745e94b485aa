-- BENCH_DEPTH requests of one caller at once on each connection.
local batch

function init()
	local one = wrk.format("GET", nil, {["X-Api-Key"] = "caller-0000000"})
	batch = string.rep(one, tonumber(os.getenv("BENCH_DEPTH")))
end

function request()
	return batch
end
