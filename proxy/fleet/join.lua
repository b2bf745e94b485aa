#!lua name=sluice_join_1
-- Which nodes the fleet has: each holds a lease, by the store's time, and renews it by this. The
-- number is that of judge.lua.
--
-- FCALL sluice_join_1 2 nodes-key process-key name lease-ms process
--
-- A lease of 0 leaves. Of two processes of one name, as an upgrade has them for a while, the one with
-- the larger number is the node, and the other does not end its lease. The process key has that number
-- for as long as the lease lasts.
-- The answer has a line for each node: its name, a blank, and how many milliseconds its lease has left.
local function join(keys, args)
	local time = redis.call('TIME')
	local now = time[1] * 1000 + math.floor(time[2] / 1000)
	local lease = tonumber(args[2])
	local process, newest = tonumber(args[3]), tonumber(redis.call('MGET', keys[2])[1] or 0)
	local text = function(ms) return string.format('%.0f', ms) end
	redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', text(now))
	if lease > 0 then
		redis.call('ZADD', keys[1], text(now + lease), args[1])
		newest = math.max(process, newest)
		redis.call('SET', keys[2], text(newest), 'EX', text(math.ceil(lease / 1000)))
	elseif process >= newest then
		redis.call('ZREM', keys[1], args[1])
		redis.call('DEL', keys[2])
	end
	local nodes, lines = redis.call('ZRANGE', keys[1], 0, -1, 'WITHSCORES'), {}
	for i = 1, #nodes, 2 do
		lines[#lines + 1] = nodes[i] .. ' ' .. text(nodes[i + 1] - now)
	end
	return table.concat(lines, '\n')
end

redis.register_function('sluice_join_1', join)
