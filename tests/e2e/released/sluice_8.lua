#!lua name=sluice_8
-- What the store does for sluice's fleet: it judges requests by limits over all nodes, as one
-- operation, by its own clock. The number in its names is of this text, as nodes refuse a store that
-- has another text by the same name: who changes it gives it another number, so that nodes of two
-- releases share a store, each with its own function. The number in the keys (batch.c) is of what is
-- kept, and still 2: windows and the epoch are kept as sluice_2 did, so nodes of all releases count
-- together. Who changes that must find a way for those before.
-- This file comes first, then those that Makefile.inc names.
--
-- FCALL sluice_judge_8 N epoch-key caller-key... request known-epoch
--
-- The keys all differ. The request is one MessagePack array of integers: the holder that asks and its
-- lease (holders.lua; 0 where no rule needs them); how many rules there are; the rules; then
-- operations. A rule is the sum of
--   1 a shadow limit, 2 it waits after a loss, 4 what it refuses counts, too, 8 it bans,
--   and 16 times its kind,
-- its quota, and by its kind (all times in microseconds)
--   0 ring.lua: window, quantum                    1 gcra.lua: window, burst
--   2 calendar.lua: four times                     3 holders.lua: nothing more;
-- of one that bans also for how long, and the next rule is a ring: so many refusals in that window.
-- They are kept in the key that follows the caller's.
--   1 n (key rule cost)*n         judges n limits: all are charged, or none
--   2 key rule slot cost epoch    gives back what was charged in a slot of that epoch; of what is in
--                                 flight, of any
--   3 key rule cost               charges, whether it fits or not
--   4 n (key rule cost)*n         judges and charges nothing
--   5 key rule held settled       what the holder holds (holders.lua)
--   6 key rule                    forgets what is used, and a ban
--   7 n m key (rule cost)*n       judges m requests by the same n limits, as 1 does: by the n keys
--                                 from `key` on, then by the next n, and so on. No operation
--                                 before it has named one of them; the rules are rings that leave no
--                                 trace of refusals, and no cost is 0
-- Keys and rules are counted from 1. The answer has doubles, little end first: the time, the epoch;
-- then for each request that was judged either
--   -1 (admitted) or 0 (not), and of each limit what is used, the slot of the charge (0: it fits and
--   was not charged, -1: it does not fit, -2: the caller is banned), and a time: until the cost fits
--   where it does not (-1: never); else until something is free where nothing is, or all is free;
-- or of operation 7, where all were charged and have something left, of each limit three numbers that
-- are kept of its caller (ring.lua): what is used, which is above 0, the newest slot, which was
-- charged, and its count.
--
-- An epoch is the time since when this store remembers: one that lost its memory has another. Who
-- calls and knows an epoch (0: none) that is not this store's remembers what the store has
-- forgotten: limits that wait then count as full until their window has passed since.
-- None of them is there while this is loaded.
local call, to_bytes, from_bytes, floor, ceil, sub, format, concat, next, pairs, tonumber, unpack

-- Of the keys in use by this call, by their numbers: what the store keeps; of those that no ring has
-- and that were changed, what it is to keep (false: nothing); and for how many seconds from now, if
-- longer than it does.
local kept, changed
local longer = {}
-- Of the rules; `full` for how long they wait, `bans` for how long they ban, or false; `traces`: what
-- they refuse leaves one.
local quota, window, grain, burst, edges, form = {}, {}, {}, {}, {}, {}
local shadow, full, bans, counts, traces = {}, {}, {}, {}, {}
local now, epoch, lost, holder, lease
-- The answer, in pieces, and a verdict of it.
local pieces, piece_count, answer = {}, 0, {}

-- As a key's expiry is said; two seconds more, as what counts is dropped by the time above.
local said_seconds, said_as

local function seconds_until(time)
	local seconds = ceil((time - now) / 1000000) + 2
	if seconds ~= said_seconds then
		said_seconds, said_as = seconds, format('%.0f', seconds)
	end
	return said_as
end

local function put(key, text, seconds)
	call('SET', key, text, 'EX', seconds)
end

-- What is kept of a caller after the operations before; false: nothing.
local function text_of(k)
	if changed[k] ~= nil then
		return changed[k]
	end
	return kept[k]
end
-- Limits by a sliding window. What was charged in slot k at a time in [k q, (k + 1) q), where q is the
-- quantum, counts until (k + 1) q + window, so no trailing window ever holds more than the quota. Of
-- a small quota the quantum is 1 us, and so nothing is rounded. A caller is kept as doubles: quantum,
-- used, the newest slot and its count, the oldest slot, the time until which it is kept; then the
-- slots before the newest with their counts, oldest first. So most verdicts read the first six, and
-- write the three that follow the quantum.
local HEAD, HEAD_BYTES = '<dddddd', 48
local MIDDLE, MIDDLE_FROM, MIDDLE_TILL = '<ddd', 8, 32
local SLOT, SLOT_BYTES = '<dd', 16
local LONGER_MOST = 60000000

-- Of the keys that this call has changed: the first numbers (false: nothing is used any more), and
-- the older slots, which are in `texts` from `firsts` on and then in `mores`. Without a text these are
-- as they were kept, but for a key in `longer`, which has none. `middles` has the three numbers for
-- the answer; without a head they are all that has changed but for older slots. Between calls the
-- tables are empty, but have room: to let them grow with each call costs as much as half of its
-- verdicts.
local heads, texts, firsts, mores, middles
local ROOM = 600

local function make_tables()
	heads, texts, firsts, mores, middles, longer = {}, {}, {}, {}, {}, {}
	for _, made in ipairs({ heads, texts, firsts, mores, middles, longer }) do
		for k = 1, ROOM do
			made[k] = false
		end
		for k = 1, ROOM do
			made[k] = nil
		end
	end
end

-- The caller that is looked at; its older slots are in `text` from `first` on, and then in `more`.
-- Lua hashes each string that is made, byte by byte: long ones are made when they must be.
local quantum, used, newest, count, oldest, lives, text, first, more

local function flatten()
	if more ~= '' then
		text, first, more = sub(text, first) .. more, 1, ''
	end
end

-- Drops the slots that do not count any more; without any the quantum is q.
local function drop(ended, q)
	if (newest + 1) * quantum <= ended then
		quantum, used, count, text, first, more = q, 0, 0, '', 1, ''
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
	if used == 0 then
		quantum = q
	end
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

-- Another rule than that it was kept by: each slot becomes the new one that its end lies in. Quanta
-- are powers of two; one that is longer, but less than twice, is of a node of sluice_4, which would
-- change it back. So it stays, as times would grow with each change.
local function change_quantum(q)
	if quantum > q and quantum < 2 * q then
		return
	end
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

-- The first six numbers of a caller that the call has changed; nil: it has not.
local function head_of(k)
	if heads[k] == nil and middles[k] then
		return sub(kept[k], 1, MIDDLE_FROM) .. middles[k] .. sub(kept[k], MIDDLE_TILL + 1, HEAD_BYTES)
	end
	return heads[k]
end

local function ring_look_up(k, rule)
	local head = head_of(k)
	if head then
		text, first, more = texts[k], firsts[k], mores[k]
		if not text and longer[k] then
			text, first, more = '', 1, ''
		elseif not text then
			text, first, more = kept[k], HEAD_BYTES + 1, more or ''
		end
		quantum, used, newest, count, oldest, lives = from_bytes(HEAD, head)
	else
		text, more = head == nil and kept[k], ''
		if not text then
			if text == nil then
				error('an operation names a key that the call has not')
			end
			quantum, used, newest, count, oldest, lives = grain[rule], 0, 0, 0, 0, 0
			text, first = '', 1
			return
		end
		quantum, used, newest, count, oldest, lives, first = from_bytes(HEAD, text)
	end
	if quantum ~= grain[rule] then
		change_quantum(grain[rule])
	end
	local ended = now - window[rule]
	if (oldest + 1) * quantum <= ended then
		drop(ended, grain[rule])
	end
end

-- What counts is dropped by the time above, never by the store's own, which is later by two seconds
-- at least. It is set for longer than is needed now, so that most changes leave it.
local function ring_keep(k, rule)
	if used == 0 then
		heads[k] = false
		return
	end
	local w = window[rule]
	local ends = (newest + 1) * quantum + w
	if ends > lives then
		lives = ends + (w < LONGER_MOST and w or LONGER_MOST)
		longer[k] = seconds_until(lives)
	end
	heads[k] = to_bytes(HEAD, quantum, used, newest, count, oldest, lives)
	texts[k], firsts[k], mores[k] = text, first, more
end

-- In the newest slot, if the clock has gone back behind that.
local function ring_take(k, rule, cost)
	local slot = add(floor(now / quantum), cost)
	ring_keep(k, rule)
	return slot
end

local function give_of(slot, cost)
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

local function ring_give(k, rule, slot, cost)
	give_of(slot, cost)
	ring_keep(k, rule)
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

local function ring_time(rule, cost, missing)
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

local function ring_missing(rule, cost)
	return used + (cost > 0 and cost or 1) - quota[rule]
end

-- A caller refused `quota` times within the window of a ban's rule is banned for some time. Its
-- refusals, in key k, are then one charge of as much that counts until the ban is over.
local function note_refusal(k, rule, ban)
	ring_look_up(k, rule)
	add(floor(now / quantum), 1)
	if used >= quota[rule] then
		used = 0
		add(floor((now + ban - window[rule]) / quantum), quota[rule])
	end
	ring_keep(k, rule)
end

-- How long the caller is still banned; false: it is not.
local function time_banned(k, rule)
	ring_look_up(k, rule)
	return used >= quota[rule] and (newest + 1) * quantum + window[rule] - now
end

local function ring_write(key, k, head)
	local before, older, at, added = kept[k], texts[k], firsts[k], mores[k]
	if not head then
		call('DEL', key)
	elseif longer[k] then
		put(key, head .. sub(older, at) .. added, longer[k])
	elseif at ~= HEAD_BYTES + 1 or older ~= before then
		call('SET', key, head .. sub(older, at) .. added, 'KEEPTTL')
	elseif added == '' then
		call('SETRANGE', key, '0', head)
	else
		call('SETRANGE', key, '0', head .. sub(older, at) .. added)
	end
	texts[k], firsts[k], mores[k], longer[k] = nil, nil, nil, nil
end

local function ring_save(keys)
	local write, changes, slots, lengthened, added, charged = call, heads, texts, longer, mores, middles
	for k = 2, #keys do
		local middle, head = charged[k], changes[k]
		if middle and head == nil then
			write('SETRANGE', keys[k], '8', middle)
			if added[k] then
				write('APPEND', keys[k], added[k])
				added[k] = nil
			end
			charged[k] = nil
		elseif head and not slots[k] then
			if lengthened[k] then
				put(keys[k], head, lengthened[k])
				lengthened[k] = nil
			else
				write('SETRANGE', keys[k], '0', head)
			end
			changes[k], charged[k] = nil, nil
		elseif head ~= nil then
			ring_write(keys[k], k, head)
			changes[k], charged[k] = nil, nil
		end
	end
end

-- One limit's part of the answer, in one step; of the other kinds it takes five (operate.lua).
local function ring_judge(k, rule, cost, takes)
	ring_look_up(k, rule)
	local most = quota[rule]
	local missing, slot = used + (cost > 0 and cost or 1) - most, 0
	if missing > 0 then
		return used, -1, cost > most and -1 or time_to_free(rule, missing)
	elseif takes and cost > 0 then
		slot = floor(now / quantum)
		if used > 0 and slot <= newest then
			count, used, slot = count + cost, used + cost, newest
		else
			slot = add(slot, cost)
		end
		ring_keep(k, rule)
		if used < most then
			return used, slot, (newest + 1) * quantum + window[rule] - now
		end
	end
	return used, slot, ring_time(rule, cost, 0)
end

-- The same by what was kept before the call, without charging.
local function ring_peek(k, rule, cost)
	local before, w = kept[k], window[rule]
	if before then
		local q, uses, last, had, first_slot = from_bytes(HEAD, before)
		local missing = uses + cost - quota[rule]
		if q == grain[rule] and had > 0 and (first_slot + 1) * q > now - w and cost <= quota[rule] then
			if missing <= 0 then
				return uses, 0, (last + 1) * q + w - now
			end
			if #before > HEAD_BYTES then
				last, had = from_bytes(SLOT, before, HEAD_BYTES + 1)
			end
			if had >= missing then
				return uses, -1, (last + 1) * q + w - now
			end
		end
	end
	return ring_judge(k, rule, cost, false)
end

-- A caller of whom nothing counts any more, until `till` if that is late enough to be kept.
local function charge_anew(k, rule, slot, cost, till)
	local q, w = grain[rule], window[rule]
	local ends = (slot + 1) * q + w
	if not till or till < ends then
		till = ends + (w < LONGER_MOST and w or LONGER_MOST)
		longer[k] = seconds_until(till)
	end
	heads[k] = to_bytes(HEAD, q, cost, slot, cost, slot, till)
	middles[k] = to_bytes(MIDDLE, cost, slot, cost)
end

-- The same of any caller in a run. True: it was not, or all of the quota is then used, or the answer
-- can't be as short as a run's.
local function charge_any(k, rule, cost)
	local uses, slot = ring_judge(k, rule, cost, true)
	middles[k] = to_bytes(MIDDLE, used, newest, count)
	return slot <= 0 or uses >= quota[rule] or quantum ~= grain[rule]
end

-- Charges so many callers, whose keys are k and every `step` further, by one rule; where it can't, or
-- all of the quota is then used, `hard` is set. Most are new, or have nothing left that counts, or
-- lose nothing by now: then they are not looked up, and have no `texts` (ring_look_up, ring_save).
-- Each line counts, as Redis's Lua takes some 15 ns for one of its own instructions, 100 to call C.
local function ring_charge_all(k, step, callers, rule, cost, hard)
	local before_all, charged, read, write, HEAD, MIDDLE = kept, middles, from_bytes, to_bytes, HEAD, MIDDLE
	local q, w, free = grain[rule], window[rule], quota[rule] - cost
	local slot, low = (now - now % q) / q, (now - w - (now - w) % q) / q
	local ends = (slot + 1) * q + w
	for i = 1, callers do
		if not hard[i] then
			local before = before_all[k]
			if before then
				local as, uses, last, had, first_slot, till = read(HEAD, before)
				if first_slot < low then
					if as == q and last < low and free > 0 then
						charge_anew(k, rule, slot, cost, #before == HEAD_BYTES and till)
					else
						hard[i] = charge_any(k, rule, cost)
					end
				elseif uses >= free then
					hard[i] = true
				elseif as ~= q or till < ends or last > slot then
					hard[i] = charge_any(k, rule, cost)
				elseif last == slot then
					charged[k] = write(MIDDLE, uses + cost, slot, had + cost)
				else
					charged[k] = write(MIDDLE, uses + cost, slot, cost)
					mores[k] = write(SLOT, last, had)
				end
			elseif before == false and free > 0 then
				charge_anew(k, rule, slot, cost, false)
			else
				hard[i] = charge_any(k, rule, cost)
			end
		end
		k = k + step
	end
end

local ring = {
	judge = ring_judge, look_up = ring_look_up, missing = ring_missing, take = ring_take, give = ring_give,
	time = ring_time, used = function() return used end,
}
-- Limits that space requests evenly (ITU-T I.371, virtual scheduling), `burst` at once. A caller is
-- kept as doubles: the time at which all that was charged has drained, in whole microseconds and a
-- part of one in quotas; how much was given back that was not charged last, in microseconds; the
-- quota and the window.
--
-- What is in use is counted in parts, of which a microsecond drains `quota`, and a charge of 1 adds
-- `window`: these are whole numbers. A charge has a place, when it has drained if nothing before it
-- is given back; less what was given back since, it is never later than the truth. So of an older
-- charge only what cannot have drained goes back, and the last one whole.
local STATE = '<ddddd'
local STATE_BEFORE, STATE_BEFORE_BYTES = '<dddd', 32 -- sluice_4 keeps no window
local level, given, drains

-- Kept until no charge can be given back to it, which is later than it has drained.
local function gcra_keep(k, rule)
	local whole = floor(level / quota[rule])
	local part = level - whole * quota[rule]
	if part < 0 then
		whole, part = whole - 1, part + quota[rule]
	end
	drains = now + whole
	changed[k] = to_bytes(STATE, drains, part, given, quota[rule], window[rule])
	longer[k] = seconds_until(drains + burst[rule] * window[rule] / quota[rule])
end

-- Another rate than that it was kept by: as many requests as before are in use, in another time. No
-- charge has a place in that, so nothing of what was charged before can be given back.
local function change_rate(k, rule, before)
	given = given + (drains > now and drains - now or 0)
	level = ceil(level * window[rule] / before)
	gcra_keep(k, rule)
end

local function gcra_look_up(k, rule)
	local state = text_of(k)
	drains, level, given = now, 0, 0
	if state then
		local part, quota_before, window_before = 0, 0, window[rule]
		drains, part, given, quota_before = from_bytes(STATE_BEFORE, state)
		if #state > STATE_BEFORE_BYTES then
			window_before = from_bytes('<d', state, STATE_BEFORE_BYTES + 1)
		end
		level = drains < now and 0 or (drains - now) * quota_before + part
		if quota_before ~= quota[rule] or window_before ~= window[rule] then
			change_rate(k, rule, window_before)
		end
	end
end

local function gcra_missing(rule, cost)
	return level + ((cost > 0 and cost or 1) - burst[rule]) * window[rule]
end

local function place()
	return drains + given + 1
end

local function gcra_take(k, rule, cost)
	level = level + cost * window[rule]
	gcra_keep(k, rule)
	return place()
end

local function gcra_give(k, rule, slot, cost)
	if not text_of(k) then
		return
	end
	local back, left = cost * window[rule], (slot - given - 1 - now) * quota[rule]
	if slot < place() then
		back = left < back and left or back
		back = back < 0 and 0 or back
		given = given + ceil(back / quota[rule])
	end
	level = level > back and level - back or 0
	gcra_keep(k, rule)
end

local function gcra_time(rule, cost, missing)
	if missing > 0 then
		return cost > burst[rule] and -1 or ceil(missing / quota[rule])
	end
	local over = level - (burst[rule] - 1) * window[rule]
	return ceil((over > 0 and over or level) / quota[rule])
end

local gcra = {
	look_up = gcra_look_up, missing = gcra_missing, take = gcra_take, give = gcra_give, time = gcra_time,
	used = function(rule) return ceil(level / window[rule]) end,
}
-- Limits by the hours, days, weeks or months of a time zone. Which these are the nodes say, as the
-- store has no zones: each rule has four times, at which three of them in a row begin and end, the
-- middle one being that of now by the node's idea of the store's clock. So which one it is, is the
-- store's to say. If it is none of them, the node knows the time from the answer, and asks again.
-- A caller is kept as doubles: begin and end of a period, and what is used in it.
local PERIOD = '<ddd'
local begins, ends, spent, unknown

local function calendar_keep(k)
	changed[k] = spent > 0 and to_bytes(PERIOD, begins, ends, spent)
	longer[k] = seconds_until(ends)
end

local function calendar_look_up(k, rule)
	local at, state = edges[rule], text_of(k)
	local n = now < at[2] and 1 or now < at[3] and 2 or 3
	unknown = now < at[1] or now >= at[4]
	n = unknown and 2 or n
	begins, ends, spent = at[n], at[n + 1], 0
	if not state then
		return
	end
	local from, till, was = from_bytes(PERIOD, state)
	if from == ends then
		begins, ends, spent = from, till, was -- the clock has gone back into the one before
	elseif from >= begins then
		spent = was -- or one further on: of a clock that was wrong
	elseif till > now and not unknown then
		spent = was -- or a longer one, by a limit that a reload has changed: all of it counts
		calendar_keep(k)
	end
end

local function calendar_missing(rule, cost)
	return unknown and 1 or spent + (cost > 0 and cost or 1) - quota[rule]
end

local function calendar_take(k, _, cost)
	spent = spent + cost
	calendar_keep(k)
	return begins
end

local function calendar_give(k, _, slot, cost)
	if slot == begins then
		spent = spent > cost and spent - cost or 0
		calendar_keep(k)
	end
end

local function calendar_time(rule, cost, missing)
	if unknown then
		return 1
	elseif missing > 0 and cost > quota[rule] then
		return -1
	end
	return (missing > 0 or spent > 0) and ends - now or 0
end

local calendar = {
	look_up = calendar_look_up, missing = calendar_missing, take = calendar_take, give = calendar_give,
	time = calendar_time, used = function() return spent end,
}
-- Limits of requests in flight. Each worker of a node is a holder, with a number of its own: what it
-- holds of a caller counts until its lease of that is over, which each of its operations on the
-- caller renews, and the node does while it holds any. So what a dead node held comes back. A holder
-- that was late (its node stood still) says what it holds with its next operation, and that counts
-- again, once. A caller is kept as doubles, three for each holder: its number, how many, until when.
local HOLD, HOLD_BYTES = '<ddd', 24
local RETRY = 1000000 -- when one of them ends is nobody's knowledge
-- The holds of others as they are kept, until when; one's own, and the sum.
local others, latest, held, total

local function holders_look_up(k)
	local state = text_of(k) or ''
	local rest = {}
	held, total, latest = 0, 0, now + lease
	for at = 1, #state, HOLD_BYTES do
		local number, holds, till = from_bytes(HOLD, state, at)
		if till > now then
			total = total + holds
			if number == holder then
				held = holds
			else
				rest[#rest + 1] = sub(state, at, at + HOLD_BYTES - 1)
				latest = till > latest and till or latest
			end
		end
	end
	others = table.concat(rest)
end

local function holders_missing(rule, cost)
	return total + (cost > 0 and cost or 1) - quota[rule]
end

local function holders_keep(k)
	changed[k] = others
	if held > 0 then
		changed[k] = others .. to_bytes(HOLD, holder, held, now + lease)
	end
	changed[k] = changed[k] ~= '' and changed[k]
	longer[k] = seconds_until(latest)
end

-- What the holder says that it holds: counts if nothing is known of it, or if it is settled, with no
-- question of the holder on its way.
local function hold(k, holds, settled)
	holders_look_up(k)
	if settled or held == 0 then
		total, held = total - held + holds, holds
	end
	holders_keep(k)
end

local function holders_take(k, _, cost)
	held, total = held + cost, total + cost
	holders_keep(k)
	return 1
end

local function holders_give(k, _, _, cost)
	local back = held < cost and held or cost
	held, total = held - back, total - back
	holders_keep(k)
end

local function holders_time(rule, cost, missing)
	return missing <= 0 and 0 or cost > quota[rule] and -1 or RETRY
end

local holders = {
	look_up = holders_look_up, missing = holders_missing, take = holders_take, give = holders_give,
	time = holders_time, used = function() return total end,
}
-- The operations of a request, one after the other.
local forms = { [0] = ring, gcra, calendar, holders }

-- Of a limit that waits after a loss: what it says instead.
local function waiting(rule, cost)
	local most, missing = burst[rule] or quota[rule], form[rule].missing(rule, cost)
	local time = missing > 0 and form[rule].time(rule, cost, missing) or 0
	if cost > most then
		time = -1
	elseif time < full[rule] then
		time = full[rule]
	end
	local uses = form[rule].used(rule)
	return uses > most and uses or most, -1, time
end

-- One limit's part of the answer; it is charged if `takes`.
local function outcome(k, rule, cost, takes)
	local of = form[rule]
	if of.judge and not full[rule] then
		return of.judge(k, rule, cost, takes)
	end
	of.look_up(k, rule)
	if full[rule] then
		return waiting(rule, cost)
	end
	local missing, slot = of.missing(rule, cost), 0
	if missing > 0 then
		slot = -1
	elseif takes and cost > 0 then
		slot = of.take(k, rule, cost)
	end
	return of.used(rule), slot, of.time(rule, cost, missing)
end

-- A refusal that leaves a trace: it counts, or counts towards a ban.
local function note(k, rule, cost)
	if counts[rule] and cost > 0 then
		form[rule].take(k, rule, cost)
	end
	if bans[rule] then
		note_refusal(k + 1, rule + 1, bans[rule])
	end
end

-- The same where the caller may be banned. A cost of 0 asks whether anything is free.
local function conclude(k, rule, cost, takes, notes)
	local left = bans[rule] and time_banned(k + 1, rule + 1)
	if left then
		form[rule].look_up(k, rule)
		return form[rule].used(rule), -2, left
	end
	local uses, slot, time = outcome(k, rule, cost, takes)
	if notes and slot == -1 and not shadow[rule] then
		note(k, rule, cost)
	end
	return uses, slot, time
end

local function fits(k, rule, cost)
	if shadow[rule] then
		return true
	elseif full[rule] or bans[rule] and time_banned(k + 1, rule + 1) then
		return false
	end
	form[rule].look_up(k, rule)
	return form[rule].missing(rule, cost) <= 0
end

-- Most requests have one limit: its caller is looked at once.
local function ask_one(k, rule, cost, takes, answer, n)
	if traces[rule] then
		local admitted = fits(k, rule, cost)
		answer[n] = admitted and 1 or 0
		answer[n + 1], answer[n + 2], answer[n + 3] =
			conclude(k, rule, cost, takes and admitted, takes and not admitted)
		return
	end
	answer[n + 1], answer[n + 2], answer[n + 3] = outcome(k, rule, cost, takes)
	answer[n] = (answer[n + 2] >= 0 or shadow[rule]) and 1 or 0
end

-- Of the limits that a request has been charged so far, by their places in it: what was kept of
-- their callers before, to be had again when a later one does not fit.
local head_before, text_before, first_before, more_before = {}, {}, {}, {}
local changed_before, longer_before = {}, {}

local function save_before(i, k)
	head_before[i], text_before[i] = heads[k], texts[k]
	first_before[i], more_before[i] = firsts[k], mores[k]
	changed_before[i], longer_before[i] = changed[k], longer[k]
end

local function restore_before(i, k)
	heads[k], texts[k] = head_before[i], text_before[i]
	firsts[k], mores[k] = first_before[i], more_before[i]
	changed[k], longer[k] = changed_before[i], longer_before[i]
end

-- Those before place `till` are not charged, as one there does not fit.
local function take_back(request, at, till, answer, n)
	for i = at, till - 1, 3 do
		if answer[n + 2] > 0 then
			restore_before(i - at, request[i])
			answer[n + 1], answer[n + 2], answer[n + 3] =
				outcome(request[i], request[i + 1], request[i + 2], false)
		end
		n = n + 3
	end
end

-- Each limit is charged as it is looked at, until one does not fit. No refusal leaves a trace.
local function ask_plain(request, at, till, takes, answer, n)
	local first = n
	answer[n] = 1
	for i = at, till, 3 do
		local k, rule = request[i], request[i + 1]
		if takes then
			save_before(i - at, k)
		end
		answer[n + 1], answer[n + 2], answer[n + 3] = outcome(k, rule, request[i + 2], takes)
		if answer[n + 2] < 0 and not shadow[rule] then
			answer[first] = 0
			if takes then
				takes = false
				take_back(request, at, i, answer, first)
			end
		end
		n = n + 3
	end
	return n + 1
end

local function is_plain(request, at, till)
	for i = at + 1, till, 3 do
		if traces[request[i]] then
			return false
		end
	end
	return true
end

local function ask(request, at, limits, takes, answer, n)
	local till, admitted = at + 3 * limits - 1, true
	if limits == 1 then
		ask_one(request[at], request[at + 1], request[at + 2], takes, answer, n)
		return till + 1, n + 4
	elseif is_plain(request, at, till) then
		return till + 1, ask_plain(request, at, till, takes, answer, n)
	end
	for i = at, till, 3 do
		admitted = fits(request[i], request[i + 1], request[i + 2]) and admitted
	end
	answer[n] = admitted and 1 or 0
	for i = at, till, 3 do
		answer[n + 1], answer[n + 2], answer[n + 3] = conclude(request[i], request[i + 1],
			request[i + 2], takes and admitted, takes and not admitted)
		n = n + 3
	end
	return till + 1, n + 1
end

-- Not what is in flight, which its holders know.
local function forget(k, rule)
	if form[rule] == ring then
		heads[k] = false
	elseif form[rule] ~= holders then
		changed[k] = false
	end
	if bans[rule] then
		heads[k + 1] = false
	end
end

-- Another operation than asking. Returns where the next one is.
local function change(request, at)
	local kind, k, rule = request[at], request[at + 1], request[at + 2]
	if kind == 5 then
		hold(k, request[at + 3], request[at + 4] == 1)
		return at + 5
	elseif kind == 6 then
		forget(k, rule)
		return at + 3
	end
	form[rule].look_up(k, rule)
	if kind == 3 then
		form[rule].take(k, rule, request[at + 3])
		return at + 4
	elseif request[at + 5] == epoch or form[rule] == holders then
		form[rule].give(k, rule, request[at + 3], request[at + 4])
	end
	return at + 6
end

-- How a verdict over so many limits is packed: its first number, and three of each limit.
local verdicts = {}

-- The verdict over `limits` becomes part of the call's answer.
local function say(limits)
	local as = verdicts[limits]
	if not as then
		as = '<d' .. string.rep('ddd', limits)
		verdicts[limits] = as
	end
	answer[1] = -answer[1]
	piece_count = piece_count + 1
	pieces[piece_count] = to_bytes(as, unpack(answer, 1, 3 * limits + 1))
end

-- A run's requests that were not charged at once, by their places in it.
local hard = {}

-- What ask says to one of them, with its keys from k on; first it is looked whether all fit.
local function judge_hard(request, at, limits, k)
	answer[1] = 1
	for pass = 1, 2 do
		for i = 0, limits - 1 do
			local rule, cost, n = request[at + 2 * i], request[at + 2 * i + 1], 2 + 3 * i
			if pass == 1 and not lost then
				answer[n], answer[n + 1], answer[n + 2] = ring_peek(k + i, rule, cost)
			else
				answer[n], answer[n + 1], answer[n + 2] = outcome(k + i, rule, cost, pass == 2)
			end
			if answer[n + 1] < 0 and not shadow[rule] then
				answer[1] = 0
			end
		end
		if answer[1] == 0 then
			break
		end
	end
	say(limits)
end

-- Charges of keys in a run from k on are as if they had never been.
local function forget_charges(k, till)
	for i = k, till do
		if middles[i] or heads[i] ~= nil then
			heads[i], texts[i], firsts[i], mores[i], longer[i] = nil, nil, nil, nil, nil
			middles[i] = nil
		end
	end
end

-- Many requests by the same limits, of callers that the call has not looked at before: limit by
-- limit, as if all fitted; then those that do not are judged again, by all limits.
local function run(request, at)
	local limits, count, k, rules = request[at + 1], request[at + 2], request[at + 3], at + 4
	local said, n, charged = pieces, piece_count, middles
	for i = 1, count do
		hard[i] = lost
	end
	for i = 0, lost and -1 or limits - 1 do
		ring_charge_all(k + i, limits, count, request[rules + 2 * i], request[rules + 2 * i + 1], hard)
	end
	for i = 1, count do
		if hard[i] then
			forget_charges(k, k + limits - 1)
			piece_count = n
			judge_hard(request, rules, limits, k)
			n = n + 1
		else
			for key = k, k + limits - 1 do
				n = n + 1
				said[n] = charged[key]
			end
		end
		k = k + limits
	end
	piece_count = n
	return rules + 2 * limits
end

local function operate(request, at)
	local length = #request
	while at <= length do
		local kind = request[at]
		if kind == 7 then
			at = run(request, at)
		elseif kind == 1 or kind == 4 then
			local limits = request[at + 1]
			at = ask(request, at + 2, limits, kind == 1, answer, 1)
			say(limits)
		else
			at = change(request, at)
		end
	end
end

-- What the store remembers, and what a caller knows that it has forgotten: `lost` is then set. Of an
-- epoch that admissions before it may be missing, the number is odd. Most callers know the epoch, as
-- those before them did.
local remembered

local function remember(key, known)
	if known == kept[1] and known == remembered then
		return
	end
	remembered = known == kept[1] and known
	local stored = tonumber(kept[1])
	known, epoch = tonumber(known), stored
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

-- How long a limit that waits is full, or false.
local function wait_of(rule)
	local after = window[rule]
	if form[rule] == calendar then
		calendar_look_up(0, rule)
		return epoch >= begins and ends - now
	elseif form[rule] == gcra then
		after = ceil(burst[rule] * after / quota[rule])
	elseif form[rule] == holders then
		after = lease
	end
	return epoch + after > now and epoch + after - now
end

-- What the kind of rule i says more; returns what follows.
local function read_kind(request, at, i)
	if form[i] == ring then
		window[i], grain[i] = request[at], request[at + 1]
		return at + 2
	elseif form[i] == gcra then
		window[i], burst[i] = request[at], request[at + 1]
		return at + 2
	elseif form[i] == calendar then
		edges[i] = { request[at], request[at + 1], request[at + 2], request[at + 3] }
		return at + 4
	end
	return at
end

local function read_rules(request)
	local at = 4
	holder, lease = request[1], request[2]
	for i = 1, request[3] do
		local flags = request[at]
		quota[i], form[i], burst[i] = request[at + 1], forms[floor(flags / 16)], false
		at = read_kind(request, at + 2, i)
		shadow[i], counts[i], bans[i] = flags % 2 == 1, flags % 8 >= 4, false
		full[i] = lost and flags % 4 >= 2 and wait_of(i)
		if flags % 16 >= 8 then
			bans[i] = request[at]
			at = at + 1
		end
		traces[i] = counts[i] or bans[i] ~= false
	end
	return at
end

-- The requests that have come before by their texts, with `operations` where these begin: a node asks
-- most calls by few texts, and to read one costs more than to judge it. Those of a single run only.
local READ_MOST, READ_BYTES_MOST = 64, 200
local read_before, read_count, rules_text

local function keep_request(text, request, at)
	if #text <= READ_BYTES_MOST and request[at] == 7 and at + 2 * request[at + 1] + 3 == #request then
		if read_count == READ_MOST then
			read_before, read_count = {}, 0
		end
		read_before[text], read_count = request, read_count + 1
	end
end

-- The request of this text, with its rules in force.
local function read_request(text)
	local request = read_before[text]
	if not request then
		request = cmsgpack.unpack(text)
		request.operations = read_rules(request)
		keep_request(text, request, request.operations)
	elseif lost or text ~= rules_text then
		read_rules(request)
	end
	rules_text = not lost and text
	return request
end

local function save(keys)
	ring_save(keys)
	if next(changed) then
		for k, text in pairs(changed) do
			if text then
				put(keys[k], text, longer[k])
			else
				call('DEL', keys[k])
			end
			longer[k] = nil
		end
		changed = {}
	end
end

-- The store's clock, whose seconds are those of the call before, as a rule.
local second_text, second

local function read_clock()
	local time = call('TIME')
	if time[1] ~= second_text then
		second_text, second = time[1], time[1] * 1000000
	end
	now = second + time[2]
end

-- Of the call before: it was broken off by an error, so that the tables are not empty. Before the first
-- call, too.
local is_under_way = true

local function make_ready()
	call, to_bytes, from_bytes = redis.call, struct.pack, struct.unpack
	floor, ceil, sub, format, concat = math.floor, math.ceil, string.sub, string.format, table.concat
	next, pairs, tonumber, unpack = _G.next, _G.pairs, _G.tonumber, _G.unpack
	make_tables()
	changed, read_before, read_count, rules_text, remembered, second_text = {}, {}, 0, nil, nil, nil
end

local function judge(keys, args)
	if is_under_way then
		make_ready()
	end
	is_under_way = true
	read_clock()
	kept = call('MGET', unpack(keys))
	remember(keys[1], args[2])
	pieces[1], piece_count = to_bytes('<dd', now, epoch), 1
	local request = read_request(args[1])
	operate(request, request.operations)
	save(keys)
	is_under_way = false
	return concat(pieces, '', 1, piece_count)
end

redis.register_function('sluice_judge_8', judge)
