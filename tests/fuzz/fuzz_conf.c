/*
 * Any bytes as a configuration: read without fault, and what is good dumps to what is good again
 * and the same. Files that the text names are not opened.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct conf *parse(const char *text, size_t len)
{
	struct conf_errors errors;
	const struct conf *conf = conf_parse(text, len, "fuzz", NULL, &errors);

	if ((conf != NULL) != (errors.count == 0))
		abort();
	for (size_t i = 1; i < errors.count; i++)
		if (errors.items[i].line < errors.items[i - 1].line)
			abort();
	conf_errors_free(&errors);
	return conf;
}

static char *dump(const struct conf *conf, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		abort();
	reference_dump(conf, out);
	fclose(out);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct conf *conf = parse((const char *)data, size), *again;
	char *first, *second;
	size_t first_len, second_len;

	if (!conf)
		return 0;
	first = dump(conf, &first_len);
	again = parse(first, first_len);
	if (!again)
		abort();
	second = dump(again, &second_len);
	if (first_len != second_len || memcmp(first, second, first_len) != 0)
		abort();
	free(first);
	free(second);
	conf_release(conf);
	conf_release(again);
	return 0;
}
