#include "base/log_text.h"

#include <stdio.h>
#include <string.h>

/*
 * Bytes of a peer may be in a message: nothing that a terminal or a reader of lines would obey is
 * written. Control characters become '?'; bytes of UTF-8 stay.
 */
static void disarm(char *at, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)at[i];
		if (c < 0x20 || c == 0x7f)
			at[i] = '?';
	}
}

void log_text_compose(struct log_text *line, struct clock_cache *clock, enum log_level level,
	const char *format, va_list args)
{
	static const char names[][7] = {
		[LOG_LEVEL_ERROR] = " error",
		[LOG_LEVEL_WARN] = " warn ",
		[LOG_LEVEL_INFO] = " info ",
		[LOG_LEVEL_DEBUG] = " debug",
	};
	const size_t prefix = CLOCK_ISO_BYTES - 1 + sizeof(names[0]);
	size_t room = sizeof(line->text) - prefix;
	char *at = line->text + prefix;

	clock_format_iso(clock, clock_wall_ns(), line->text);
	memcpy(line->text + CLOCK_ISO_BYTES - 1, names[level], sizeof(names[0]) - 1);
	line->text[prefix - 1] = ' ';
	int n = vsnprintf(at, room, format, args);
	size_t len = n < 0 ? 0 : (size_t)n;
	if (len > room - 1) {
		/* The NUL's place is the newline's. */
		len = room - 1;
		memcpy(at + len - 3, "...", 3);
	}
	disarm(at, len);
	at[len] = '\n';
	line->record = (struct log_record){.len = (uint32_t)(prefix + len + 1),
		.prefix = (uint8_t)prefix,
		.channel = LOG_CHANNEL_ERROR,
		.level = level & 15u};
}
