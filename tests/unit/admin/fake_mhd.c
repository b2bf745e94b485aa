#include "fake_mhd.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "admin/ask.h"

const char *(*fake_mhd_field)(const char *name);
const char *const *fake_mhd_arguments;
bool fake_mhd_over_unix;
bool (*fake_asker_run)(void (*run)(void *ctx), void *ctx);

bool __wrap_asker_run(struct asker *asker, void (*run)(void *ctx), void *ctx);
bool __wrap_asker_run(struct asker *asker, void (*run)(void *ctx), void *ctx)
{
	(void)asker;
	return fake_asker_run(run, ctx);
}

const union MHD_ConnectionInfo *__wrap_MHD_get_connection_info(
	struct MHD_Connection *connection, enum MHD_ConnectionInfoType type, ...);
const union MHD_ConnectionInfo *__wrap_MHD_get_connection_info(
	struct MHD_Connection *connection, enum MHD_ConnectionInfoType type, ...)
{
	static struct sockaddr address;
	static union MHD_ConnectionInfo client = {.client_addr = &address}, none;

	(void)connection;
	address.sa_family = fake_mhd_over_unix ? AF_UNIX : AF_INET;
	return type == MHD_CONNECTION_INFO_CLIENT_ADDRESS ? &client : &none;
}

const char *__wrap_MHD_lookup_connection_value(
	struct MHD_Connection *connection, enum MHD_ValueKind kind, const char *key);
const char *__wrap_MHD_lookup_connection_value(
	struct MHD_Connection *connection, enum MHD_ValueKind kind, const char *key)
{
	(void)connection;
	if (kind == MHD_HEADER_KIND)
		return fake_mhd_field ? fake_mhd_field(key) : NULL;
	for (size_t i = 0; fake_mhd_arguments && fake_mhd_arguments[i]; i += 2)
		if (strcmp(fake_mhd_arguments[i], key) == 0)
			return fake_mhd_arguments[i + 1];
	return NULL;
}

int __wrap_MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
	MHD_KeyValueIterator iterator, void *ctx);
int __wrap_MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
	MHD_KeyValueIterator iterator, void *ctx)
{
	int count = 0;

	(void)connection;
	for (size_t i = 0; fake_mhd_arguments && fake_mhd_arguments[i]; i += 2, count++)
		if (iterator(ctx, kind, fake_mhd_arguments[i], fake_mhd_arguments[i + 1]) !=
			MHD_YES)
			break;
	return count;
}
