#!lua name=sluice_judge_1
-- What the store does for sluice's fleet: it judges requests by limits over all nodes, as one
-- operation, by its own clock. The number in its names belongs to the released text: nodes refuse a
-- store that has another text by the same name, so a release that changes the text changes the number.
-- The number in the keys (batch.c) belongs to the layout of the values.
-- This file comes first, then those that Makefile.inc names.
--
-- FCALL sluice_judge_1 N epoch-key caller-key... request known-epoch
--
-- The keys all differ. The request is one MessagePack array of integers: the holder that asks
-- (holders.lua; 0 where no rule needs it); how long nodes of the fleet may be silent, which is a
-- holder's lease, too; how many rules there are; the rules; then operations. A rule is the sum of
--   1 a shadow limit, 2 it waits after a loss, 4 what it refuses counts, too, 8 it bans,
--   16 times its kind, and 64 it waits while the store is young,
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
local remember, waits, wait_after_loss -- epoch.lua
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
