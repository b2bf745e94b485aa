/* See curl.h. */
#include "cli/curl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcurl.so.4" /* its only binary interface since 2006 */

bool curl_load(struct curl_functions *curl)
{
	static const struct {
		const char *name;
		size_t at; /* of the pointer in the struct */
	} functions[] = {
		{"curl_easy_init", offsetof(struct curl_functions, easy_init)},
		{"curl_easy_setopt", offsetof(struct curl_functions, easy_setopt)},
		{"curl_easy_perform", offsetof(struct curl_functions, easy_perform)},
		{"curl_easy_getinfo", offsetof(struct curl_functions, easy_getinfo)},
		{"curl_easy_strerror", offsetof(struct curl_functions, easy_strerror)},
		{"curl_easy_escape", offsetof(struct curl_functions, easy_escape)},
		{"curl_easy_cleanup", offsetof(struct curl_functions, easy_cleanup)},
		{"curl_slist_append", offsetof(struct curl_functions, slist_append)},
		{"curl_slist_free_all", offsetof(struct curl_functions, slist_free_all)},
		{"curl_free", offsetof(struct curl_functions, free)},
	};
	const size_t count = sizeof(functions) / sizeof(functions[0]);
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	_Static_assert(sizeof(*curl) == sizeof(functions) / sizeof(functions[0]) * sizeof(void *),
		"each function has its row");
	for (size_t i = 0; library && i < count; i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function) {
			library = NULL;
			break;
		}
		memcpy((char *)curl + functions[i].at, &function, sizeof(function));
	}
	if (!library)
		fprintf(stderr, "sluice: %s\n", dlerror());
	return library != NULL;
}
