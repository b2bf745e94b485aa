#!lua name=sluice_split_1
-- What the store does for limits that are divided among the nodes (fleet = split): it says how much
-- of each a node may use, by its own clock. The number in the names is of what is called and what
-- is kept, as in judge.lua.
--
-- FCALL sluice_split_1 2 shares-key since-key node request limit...
--
-- The request is one MessagePack array of integers: the node's process (a random number), the number
-- of this call (they only grow), how long a share is held and how much longer it counts (both in
-- microseconds; 0 0: the node leaves); and for each limit its quota, its window in microseconds, the
-- units that the node uses at most from now until it has the answer, 1 if it has the store judge,
-- and since when the store remembers the limit, as it was last told (0: it holds nothing).
-- The answer is one array, too: the time; and for each limit the units that the node may use for so
-- long from when it asked, 1 if the store is to judge instead, since when the store remembers the
-- limit, among how many nodes it is divided, and in how many microseconds there may be more (0:
-- there is no more).
--
-- A node counts with the most that it may have used in the last window: with its share as long as it
-- holds it, and with a share that it gave up, or held until its time was over, for a window and a
-- little more (`grace`, for requests that were being judged). What all nodes count with is never more
-- than the quota: a node gets of its part (quota / nodes, one more for the lowest names) what all
-- others leave. With more nodes than units none has a share, and the store judges (judge.lua), when
-- nothing of any share counts any more; and the other way round.
--
-- The since-key has the time since when this store remembers, and does not expire. Two leases from
-- then on the store is young: nodes that remember what it has forgotten may not have called yet, and
-- nobody gets more than it has.
--
-- A limit is kept as { since, lost, nodes }; a node as { name, process, call, units, ends, judged,
-- judged-until, tails }, and tails are units, until, units, until ... of which the units fall and the
-- times grow.
local NAME, PROCESS, CALL, UNITS, ENDS, JUDGED, JUDGED_UNTIL, TAILS = 1, 2, 3, 4, 5, 6, 7, 8
local YOUNG = 2 -- leases
local now, window, grace, since

local function add_tail(node, units, till)
	local tails = node[TAILS]
	local n = #tails
	while n > 0 and tails[n - 1] <= units do
		tails[n], tails[n - 1] = nil, nil
		n = n - 2
	end
	if units > 0 then
		tails[n + 1], tails[n + 2] = units, till
	end
end

local function drop_tails(node)
	local tails, left = node[TAILS], {}
	for i = 1, #tails, 2 do
		if tails[i + 1] > now then
			left[#left + 1], left[#left + 2] = tails[i], tails[i + 1]
		end
	end
	node[TAILS] = left
end

-- What it held until then counts for a window more.
local function give_up(node, at)
	local till = at + window + grace
	add_tail(node, node[UNITS], till)
	if node[JUDGED] == 1 then
		node[JUDGED_UNTIL] = math.max(node[JUDGED_UNTIL], till)
	end
	node[UNITS], node[JUDGED] = 0, 0
end

local function counts(node)
	return math.max(node[UNITS], node[TAILS][1] or 0)
end

local function is_judged(node)
	return node[JUDGED] == 1 or node[JUDGED_UNTIL] > now
end

-- Drops what counts no more. Returns the node's own, or nil.
local function look_over(limit, name, process)
	local left, own = {}, nil
	for _, node in ipairs(limit[3]) do
		drop_tails(node)
		if node[ENDS] <= now then
			give_up(node, node[ENDS])
			drop_tails(node)
		end
		if node[NAME] == name and node[PROCESS] == process then
			own = node
		elseif node[ENDS] > now or counts(node) > 0 or is_judged(node) then
			left[#left + 1] = node
		end
	end
	if own then
		left[#left + 1] = own
	end
	limit[3] = left
	return own
end

local function is_before(a, b)
	return a[NAME] < b[NAME] or a[NAME] == b[NAME] and a[PROCESS] < b[PROCESS]
end

-- Of a node: its part, and how many nodes there are. What counts of all others; whether the store
-- judges for anybody; and when the next of it counts no more.
local function survey(limit, own, quota)
	local nodes, before, others, judged, next = 0, 0, 0, false, nil
	for _, node in ipairs(limit[3]) do
		if node[ENDS] > now then
			nodes = nodes + 1
			before = before + (is_before(node, own) and 1 or 0)
		end
		local till = node[TAILS][2] or node[JUDGED_UNTIL] > now and node[JUDGED_UNTIL]
		if till and (not next or till < next) then
			next = till
		end
		others = others + (node ~= own and counts(node) or 0)
		judged = judged or is_judged(node)
	end
	local part = math.floor(quota / nodes) + (before < quota % nodes and 1 or 0)
	return part, nodes, others, judged, next
end

-- What the node says of itself. False: this is an older call than the last.
local function hear(node, call, lease, units, judged)
	if call <= node[CALL] then
		return false
	end
	node[CALL] = call
	if units < node[UNITS] or judged < node[JUDGED] then
		give_up(node, now)
	end
	node[UNITS], node[JUDGED] = math.max(units, node[UNITS]), math.max(judged, node[JUDGED])
	if lease == 0 then
		give_up(node, now)
	end
	node[ENDS] = now + lease
	return true
end

-- A store that was emptied has forgotten what nodes hold: until all of that is over, or its node has
-- said so, nobody gets more than it has. `since` is odd from then on.
local function remember(limit, known, lease)
	if known ~= 0 and known ~= limit[1] and limit[1] % 2 == 0 then
		limit[1], limit[2] = limit[1] + 1, now + lease + window + grace
	end
end

-- Until when nobody gets more than it has. What a forgotten share admitted counts no longer than the
-- share may last, and a window; so a young store needs no longer, either.
local function closed_until(limit, lease)
	local young = since + math.min(YOUNG * lease, lease + window + grace)
	return math.max(limit[2], young)
end

local function share(limit, own, quota, held, lease)
	local part, nodes, others, judged, next = survey(limit, own, quota)
	local given, judges, closed = 0, 0, closed_until(limit, lease)
	if closed > now then
		given, next = math.min(part, held), closed
	elseif nodes > quota then
		given = 0
		if own[JUDGED] == 1 or others + counts(own) == 0 then
			own[JUDGED], judges = 1, 1
		end
	elseif not judged then
		given = math.max(0, math.min(part, quota - others))
	end
	own[UNITS] = math.max(own[UNITS], given)
	local more = (given < part or judges == 0 and nodes > quota) and next and next - now or 0
	return given, judges, nodes, more
end

-- For how many seconds a limit must be kept: as long as anything of it counts.
local function seconds_of(limit)
	local last = math.max(now, limit[2])
	for _, node in ipairs(limit[3]) do
		local tails = node[TAILS]
		last = math.max(last, node[ENDS] + window + grace, node[JUDGED_UNTIL], tails[#tails] or 0)
	end
	return math.ceil((last - now) / 1000000) + 2
end

local function judge_limit(text, name, request, at)
	local process, call, lease = request[1], request[2], request[3]
	local quota, units, judged, known = request[at], request[at + 2], request[at + 3], request[at + 4]
	window = request[at + 1]
	local limit = text and cmsgpack.unpack(text) or { now - now % 2, 0, {} }
	local own = look_over(limit, name, process)
	if not own then
		own = { name, process, 0, 0, 0, 0, 0, {} }
		table.insert(limit[3], own)
	end
	remember(limit, known, lease)
	if not hear(own, call, lease, units, judged) or lease == 0 then
		return limit, 0, 0, 0, 0
	end
	return limit, share(limit, own, quota, units, lease)
end

local function read_since(key)
	since = tonumber(redis.call('MGET', key)[1] or '')
	if not since then
		since = now
		redis.call('SET', key, string.format('%.0f', since))
	end
end

local function keep_key(key, seconds)
	local left = redis.call('TTL', key)
	if left < seconds then
		redis.call('EXPIRE', key, string.format('%.0f', seconds))
	end
end

local function run(keys, args)
	local time, request = redis.call('TIME'), cmsgpack.unpack(args[2])
	now, grace = time[1] * 1000000 + time[2], request[4]
	local names = {}
	for i = 3, #args do
		names[#names + 1] = args[i]
	end
	local answer = { now }
	if #names == 0 then
		return cmsgpack.pack(answer)
	end
	local kept, changes, seconds = redis.call('HMGET', keys[1], unpack(names)), {}, 0
	read_since(keys[2])
	for i, name in ipairs(names) do
		local limit, given, judges, nodes, more =
			judge_limit(kept[i], args[1], request, 5 * i)
		changes[#changes + 1], changes[#changes + 2] = name, cmsgpack.pack(limit)
		seconds = math.max(seconds, seconds_of(limit))
		for _, number in ipairs({ given, judges, limit[1], nodes, more }) do
			answer[#answer + 1] = number
		end
	end
	redis.call('HSET', keys[1], unpack(changes))
	keep_key(keys[1], seconds)
	return cmsgpack.pack(answer)
end

redis.register_function('sluice_split_1', run)
