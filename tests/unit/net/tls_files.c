#include "tls_files.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

static void add_names(X509 *x509, const char *names)
{
	char value[512] = "", copy[256], *rest = copy, *name;

	snprintf(copy, sizeof(copy), "%s", names);
	while ((name = strsep(&rest, ",")) != NULL) {
		size_t len = strlen(value);
		snprintf(value + len, sizeof(value) - len, "%sDNS:%s", len > 0 ? "," : "", name);
	}
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, value);
	assert(extension && X509_add_ext(x509, extension, -1));
	X509_EXTENSION_free(extension);
}

void tls_files_make(const char *path, const char *key_path, const char *names, bool is_rsa)
{
	EVP_PKEY *key = is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
	X509 *x509 = X509_new();

	assert(key && x509);
	X509_set_version(x509, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
	X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x509), 86400);
	X509_set_pubkey(x509, key);
	X509_NAME *name = X509_get_subject_name(x509);
	X509_NAME_add_entry_by_txt(
		name, "CN", MBSTRING_ASC, (const unsigned char *)"common.test", -1, -1, 0);
	X509_set_issuer_name(x509, name);
	if (names)
		add_names(x509, names);
	assert(X509_sign(x509, key, EVP_sha256()));
	FILE *file = fopen(path, "w");
	assert(file && PEM_write_X509(file, x509));
	if (!key_path)
		assert(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
	fclose(file);
	file = key_path ? fopen(key_path, "w") : NULL;
	if (file) {
		assert(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
		fclose(file);
	}
	X509_free(x509);
	EVP_PKEY_free(key);
}
