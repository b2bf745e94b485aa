#include "fake_remote.h"

#include <stddef.h>

int (*fake_remote_find)(const char *admin, const char *conf_path, const char *token_path);
enum remote_result (*fake_remote_call)(const struct remote *remote, const char *method,
	const char *path, const json_t *body, json_t **answer);

int __wrap_remote_find(
	struct remote *remote, const char *admin, const char *conf_path, const char *token_path);
int __wrap_remote_find(
	struct remote *remote, const char *admin, const char *conf_path, const char *token_path)
{
	(void)remote;
	return fake_remote_find ? fake_remote_find(admin, conf_path, token_path) : 0;
}

enum remote_result __wrap_remote_call(const struct remote *remote, const char *method,
	const char *path, const json_t *body, json_t **answer);
enum remote_result __wrap_remote_call(const struct remote *remote, const char *method,
	const char *path, const json_t *body, json_t **answer)
{
	return fake_remote_call(remote, method, path, body, answer);
}
