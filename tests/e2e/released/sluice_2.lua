#!lua name=sluice_2
-- What the store does for sluice's fleet: it judges requests by limits over all nodes, as one
-- operation, by its own clock. The number in the names is of what is called and what is kept: who
-- changes either gives it another, so that nodes of two releases share a store, each with its own.
--
-- FCALL sluice_judge_2 N epoch-key caller-key... request known-epoch
--
-- The keys all differ. The request is one MessagePack array of integers: how many rules there are;
-- for each its quota, window, quantum (both in microseconds), and the sum of 1 for a shadow limit and
-- 2 for one that waits after a loss; then operations:
--   1 n (key rule cost)*n         judges n limits: all are charged, or none
--   2 key rule slot cost epoch    gives back what was charged in a slot of that epoch
--   3 key rule cost               charges, whether it fits or not
--   4 n (key rule cost)*n         judges and charges nothing
-- Keys and rules are counted from 1. The answer is one array, too: the time, the epoch; and for each
-- operation 1 or 4 first 1 or 0, admitted or not; then of each limit what is used, the slot of the
-- charge (0: none), and a time: until the cost fits where it does not (-1: never); else until
-- something is free where nothing is, or all is free.
--
-- What was charged in slot k at a time in [k q, (k + 1) q), where q is the quantum, counts until
-- (k + 1) q + window, so no trailing window ever holds more than the quota. Of a small quota the
-- quantum is 1 us, and so nothing is rounded. A caller is kept as doubles: quantum, used, the newest
-- slot and its count, the oldest slot, the time until which it is kept; then the slots before the
-- newest with their counts, oldest first. So most verdicts read and write the first six.
--
-- An epoch is the time since when this store remembers: one that lost its memory has another. Who
-- calls and knows an epoch (0: none) that is not this store's remembers what the store has
-- forgotten: limits that wait then count as full until their window has passed since.
local call, to_bytes, from_bytes, floor, ceil, sub, format -- none of them is there while this is loaded

local HEAD, HEAD_BYTES = '<dddddd', 48
local SLOT, SLOT_BYTES = '<dd', 16
local LONGER_MOST = 60000000

-- Of the keys in use by this call, by their numbers: what the store keeps; and of those that were
-- changed the first numbers (false: nothing is used any more), the older slots, which are in `texts`
-- from `firsts` on and then in `mores`, and for how many seconds they are kept from now, if longer.
local kept, heads, texts, firsts, mores, longer
-- Of the rules; `full` for how long they wait, or false.
local quota, window, grain, shadow, full = {}, {}, {}, {}, {}
local now, epoch, lost
-- The caller that is looked at; its older slots are in `text` from `first` on, and then in `more`.
-- Lua hashes each string that is made, byte by byte: long ones are made when they must be.
local quantum, used, newest, count, oldest, lives, text, first, more

local function flatten()
	if more ~= '' then
		text, first, more = sub(text, first) .. more, 1, ''
	end
end

-- Drops the slots that do not count any more.
local function drop(ended)
	if (newest + 1) * quantum <= ended then
		used, count, text, first, more = 0, 0, '', 1, ''
		return
	end
	flatten()
	local at, length, slot, cost = first, #text, oldest, 0
	while at < length do
		slot, cost = from_bytes(SLOT, text, at)
		if (slot + 1) * quantum > ended then
			break
		end
		used = used - cost
		at = at + SLOT_BYTES
	end
	if at > length then
		slot = newest
	end
	first, oldest = at, slot
end

local function add(slot, cost)
	if used == 0 then
		oldest, newest, count, text, first, more = slot, slot, 0, '', 1, ''
	elseif slot > newest then
		more = more .. to_bytes(SLOT, newest, count)
		newest, count = slot, 0
	end
	count = count + cost
	used = used + cost
	return newest
end

-- Another rule than that it was kept by: each slot becomes the new one that its end lies in.
local function divide_anew(q)
	flatten()
	local older, at, before = text, first, quantum
	local last, last_count = newest, count
	quantum, used, count, text, first, more = q, 0, 0, '', 1, ''
	while at < #older do
		local slot, cost = from_bytes(SLOT, older, at)
		add(floor(((slot + 1) * before - 1) / q), cost)
		at = at + SLOT_BYTES
	end
	add(floor(((last + 1) * before - 1) / q), last_count)
end

local function look_up(k, rule)
	local head = heads[k]
	if head then
		text, first, more = texts[k], firsts[k], mores[k]
		quantum, used, newest, count, oldest, lives = from_bytes(HEAD, head)
	else
		text, more = head == nil and kept[k], ''
		if not text then
			quantum, used, newest, count, oldest, lives = grain[rule], 0, 0, 0, 0, 0
			text, first = '', 1
			return
		end
		quantum, used, newest, count, oldest, lives, first = from_bytes(HEAD, text)
	end
	if quantum ~= grain[rule] then
		divide_anew(grain[rule])
	end
	local ended = now - window[rule]
	if (oldest + 1) * quantum <= ended then
		drop(ended)
	end
end

-- What counts is dropped by the time above, never by the store's own, which is later by two seconds
-- at least. It is set for longer than is needed now, so that most changes leave it.
local function keep(k, rule)
	if used == 0 then
		heads[k] = false
		return
	end
	local w = window[rule]
	local ends = (newest + 1) * quantum + w
	if ends > lives then
		lives = ends + (w < LONGER_MOST and w or LONGER_MOST)
		longer[k] = format('%.0f', ceil((lives - now) / 1000000) + 2)
	end
	heads[k] = to_bytes(HEAD, quantum, used, newest, count, oldest, lives)
	texts[k], firsts[k], mores[k] = text, first, more
end

local function give_back(slot, cost)
	if slot == newest then
		cost = count < cost and count or cost
		count, used = count - cost, used - cost
		return
	end
	flatten()
	for at = first, #text - 1, SLOT_BYTES do
		local found, had = from_bytes(SLOT, text, at)
		if found == slot then
			cost = had < cost and had or cost
			text = sub(text, 1, at - 1) .. to_bytes(SLOT, slot, had - cost)
				.. sub(text, at + SLOT_BYTES)
			used = used - cost
			return
		end
	end
end

-- Until `missing` of what is used counts no more.
local function time_to_free(rule, missing)
	local slot = newest
	flatten()
	for at = first, #text - 1, SLOT_BYTES do
		local older, had = from_bytes(SLOT, text, at)
		missing = missing - had
		if missing <= 0 then
			slot = older
			break
		end
	end
	return (slot + 1) * quantum + window[rule] - now
end

local function time_of(rule, cost, missing)
	local most = quota[rule]
	if missing > 0 then
		return cost > most and -1 or time_to_free(rule, missing)
	elseif used == 0 then
		return 0
	elseif used >= most then
		return time_to_free(rule, used - most + 1)
	elseif count == 0 then
		return time_to_free(rule, used)
	end
	return (newest + 1) * quantum + window[rule] - now
end

-- A cost of 0 asks whether anything is free.
local function missing_for(rule, cost)
	return used + (cost > 0 and cost or 1) - quota[rule]
end

-- Of a limit that waits after a loss: what it says instead.
local function waiting(rule, cost)
	local most, missing = quota[rule], missing_for(rule, cost)
	local time = missing > 0 and time_of(rule, cost, missing) or 0
	if cost > most then
		time = -1
	elseif time < full[rule] then
		time = full[rule]
	end
	return used > most and used or most, 0, time
end

-- One limit's part of the answer; it is charged if `takes`.
local function outcome(k, rule, cost, takes)
	local missing, slot = missing_for(rule, cost), 0
	if full[rule] then
		return waiting(rule, cost)
	end
	if takes and missing <= 0 and cost > 0 then
		slot = add(floor(now / quantum), cost)
		keep(k, rule)
	end
	return used, slot, time_of(rule, cost, missing)
end

local function fits(rule, cost)
	return shadow[rule] or not full[rule] and missing_for(rule, cost) <= 0
end

local function ask(request, at, limits, takes, answer, n)
	local till, admitted = at + 3 * limits - 1, true
	for i = at, till, 3 do
		local rule = request[i + 1]
		look_up(request[i], rule)
		admitted = fits(rule, request[i + 2]) and admitted
	end
	answer[n] = admitted and 1 or 0
	takes = takes and admitted
	for i = at, till, 3 do
		local k, rule = request[i], request[i + 1]
		if limits > 1 then
			look_up(k, rule)
		end
		answer[n + 1], answer[n + 2], answer[n + 3] = outcome(k, rule, request[i + 2], takes)
		n = n + 3
	end
	return till + 1, n + 1
end

local function operate(request, at, answer)
	local n, length = 3, #request
	while at <= length do
		local kind = request[at]
		if kind == 1 or kind == 4 then
			at, n = ask(request, at + 2, request[at + 1], kind == 1, answer, n)
		else
			local k, rule = request[at + 1], request[at + 2]
			look_up(k, rule)
			if kind == 3 then
				-- in the newest slot, if the clock has gone back behind that
				add(floor(now / quantum), request[at + 3])
				keep(k, rule)
				at = at + 4
			else
				if request[at + 5] == epoch then
					give_back(request[at + 3], request[at + 4])
					keep(k, rule)
				end
				at = at + 6
			end
		end
	end
end

-- What the store remembers, and what a caller knows that it has forgotten: `lost` is then set. Of an
-- epoch that admissions before it may be missing, the number is odd.
local function remember(key, known)
	local stored = tonumber(kept[1])
	epoch = stored
	if not stored then
		epoch = known == 0 and now + now % 2 or now - now % 2 + 1
	elseif known > stored then -- it is what it was long ago
		epoch = now - now % 2 + 1
	elseif known ~= 0 and known < stored and stored % 2 == 0 then
		epoch = stored + 1
	end
	if epoch ~= stored then
		call('SET', key, format('%.0f', epoch))
	end
	lost = epoch % 2 == 1
end

local function read_rules(request)
	local at = 2
	for i = 1, request[1] do
		local w, flags = request[at + 1], request[at + 3]
		quota[i], window[i], grain[i] = request[at], w, request[at + 2]
		shadow[i] = flags % 2 == 1
		full[i] = lost and flags >= 2 and epoch + w > now and epoch + w - now
		at = at + 4
	end
	return at
end

local function save(keys)
	for k, head in pairs(heads) do
		local before, older, at, added = kept[k], texts[k], firsts[k], mores[k]
		if not head then
			call('DEL', keys[k])
		elseif longer[k] then
			call('SET', keys[k], head .. sub(older, at) .. added, 'EX', longer[k])
		elseif at ~= HEAD_BYTES + 1 or older ~= before then
			call('SET', keys[k], head .. sub(older, at) .. added, 'KEEPTTL')
		elseif added == '' then
			call('SETRANGE', keys[k], '0', head)
		else
			call('SETRANGE', keys[k], '0', head .. sub(older, at) .. added)
		end
	end
end

local function judge(keys, args)
	call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
	floor, ceil, sub, format = math.floor, math.ceil, string.sub, string.format
	heads, texts, firsts, mores, longer = {}, {}, {}, {}, {}
	local time, request = call('TIME'), cmsgpack.unpack(args[1])
	now = time[1] * 1000000 + time[2]
	kept = call('MGET', unpack(keys))
	remember(keys[1], tonumber(args[2]))
	local answer = { now, epoch }
	operate(request, read_rules(request), answer)
	save(keys)
	return cmsgpack.pack(answer)
end

redis.register_function('sluice_judge_2', judge)
