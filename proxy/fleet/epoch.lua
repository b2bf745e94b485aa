-- The store's memory: judge.lua and lease.lua are joined with this, and declare the functions that follow.
--
-- An epoch is the time since when this store remembers: one that lost its memory has another. A node that
-- calls and knows an epoch (0: none) that is not this store's remembers what the store has forgotten: limits
-- that wait then count as full until what was admitted before has left their window. An epoch that began
-- with a node that knew none is young for two leases: nodes that remember what the store has forgotten may
-- not have called yet. Limits that wait for that count as full meanwhile.
--
-- The epoch of a store that has forgotten is odd. `lost`: it has, or may yet turn out to have. Most nodes
-- know the epoch, as those before them did.
local remembered
local YOUNG = 2 -- leases

function remember(key, known)
	if known == kept[1] and known == remembered then
		return
	end
	local text, stored = known, tonumber(kept[1])
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
	local is_young = epoch % 2 == 0 and now < epoch + YOUNG * lease
	lost = epoch % 2 == 1 or is_young
	remembered = text == kept[1] and not is_young and text
end

-- Does a rule with these flags (judge.lua) wait now?
function waits(flags)
	return lost and (epoch % 2 == 1 and flags % 4 >= 2 or epoch % 2 == 0 and flags >= 64)
end

-- For how long from now a limit that waits is full, or false, where what was admitted before the loss
-- counts for `after`.
function wait_after_loss(after)
	if epoch % 2 == 0 and after > YOUNG * lease then
		after = YOUNG * lease
	end
	return epoch + after > now and epoch + after - now
end
