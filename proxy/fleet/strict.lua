#!lua name=sluice_strict_1
-- The nodes that share limits with store_down = strict, and what of them may be in use where the
-- store is not heard: strict.h has the rule, by its points. The number is of what is called and what is
-- kept, as in judge.lua.
--
-- FCALL sluice_strict_1 1 list-key process request
--
-- The request is a MessagePack array of integers (times in us): the call's number, the lease (0: the
-- node leaves), lost_share, at least how many nodes there are, the divisor that the node holds (0:
-- none), the time in the last answer that it got (0: it has not paid what it owes), and since when the
-- list that it knew began (0: it knew none). The answer is one, too: the time, since when this list
-- begins, the node's divisor (0: none), how much of a quota lost nodes may use in parts of 2^32, how
-- many nodes there are, and how many of them are live.
local DIVISOR, LIVE, ENDS, CALL = 1, 2, 3, 4
local PARTS, YOUNG, LEAST = 4294967296, 2, 0.000001
local now

local function drop_old(nodes)
	for process, node in pairs(nodes) do
		if node[ENDS] <= now then
			nodes[process] = nil
		end
	end
end

-- The parts of live and of lost nodes, how many nodes there are, and how many live ones.
local function sum(nodes)
	local live, lost, count, lives = 0, 0, 0, 0
	for _, node in pairs(nodes) do
		local part = node[DIVISOR] > 0 and 1 / node[DIVISOR] or 0
		count = count + 1
		if node[LIVE] > now then
			live, lives = live + part, lives + 1
		else
			lost = lost + part
		end
	end
	return live, lost, count, lives
end

-- Point 1: the share that all others leave free. Until list.young some nodes may still return, which
-- remember another list (point 7).
local function give(list, own, wanted, held)
	own[DIVISOR] = 0
	local live, lost, count = sum(list.nodes)
	local left, given = 1 - live - lost, 0
	if now < list.young or now < list.forgot then
		given = held > 0 and 1 / held <= left + LEAST and held or 0
	elseif left > LEAST then
		given = math.max(wanted, count, math.ceil(1 / left - 0.000000001))
	end
	own[DIVISOR] = given
	if held > 0 and (given == 0 or held < given) then
		own[DIVISOR] = held
	end
	return given
end

local function hear(list, process, request)
	local number, lease, keeps, wanted, held, echo, known = unpack(request)
	local own = list.nodes[process] or { 0, 0, 0, 0 }
	if number <= own[CALL] then
		return 0
	elseif lease == 0 then
		list.nodes[process] = nil
		return 0
	end
	if known ~= 0 and known ~= list.since then
		list.forgot = math.max(list.forgot, now + keeps)
	elseif echo ~= 0 then
		own[LIVE] = math.max(own[LIVE], echo + 2 * lease)
	end
	list.nodes[process] = own
	own[ENDS], own[CALL] = now + keeps, number
	return give(list, own, wanted, held)
end

local function run(keys, args)
	local time, request = redis.call('TIME'), cmsgpack.unpack(args[2])
	now = time[1] * 1000000 + time[2]
	local text = redis.call('MGET', keys[1])[1]
	local list = text and cmsgpack.unpack(text)
		or { since = now, forgot = 0, young = now + YOUNG * request[2], nodes = {} }
	drop_old(list.nodes)
	local given = hear(list, args[1], request)
	local live, lost, count, lives = sum(list.nodes)
	if now < list.forgot or now < list.young then
		lost = 1 - live
	end
	local seconds = math.ceil(2 * request[3] / 1000000) + 60
	redis.call('SET', keys[1], cmsgpack.pack(list), 'EX', string.format('%.0f', seconds))
	local parts = math.max(0, math.min(PARTS, math.ceil(lost * PARTS)))
	return cmsgpack.pack({ now, list.since, given, parts, count, lives })
end

redis.register_function('sluice_strict_1', run)
