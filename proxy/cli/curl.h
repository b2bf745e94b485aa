/*
 * libcurl, loaded when a command first asks a running sluice. Linked, it and the 19 libraries that
 * it needs would be 1.8 MB of every sluice that serves.
 */
#ifndef CLI_CURL_H
#define CLI_CURL_H

#include <curl/curl.h>
#include <stdbool.h>

/* Its functions, by the names that they have behind `curl_`. */
struct curl_functions {
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_perform) *easy_perform;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_easy_escape) *easy_escape;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_slist_append) *slist_append;
	__typeof__(curl_slist_free_all) *slist_free_all;
	__typeof__(curl_free) *free;
};

/* Fills `curl`; the library stays loaded. False with a line on stderr where it can't be loaded. */
bool curl_load(struct curl_functions *curl);

#endif
