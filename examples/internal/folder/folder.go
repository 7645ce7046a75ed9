// Package folder opens the registry folder that an example is to look into.
package folder

import (
	"flag"
	"strings"

	"github.com/bailinghub/bailinghub-go/receipt"
	"github.com/bailinghub/bailinghub-go/registry"
)

// The environment variables of hosts that keep their logins in a folder.
const (
	// Consent gives leave to read plain credential files, when it is "true".
	Consent = "BAILINGHUB_ALLOW_FILE_CREDENTIAL_STORE"
	// Namespace is the storage namespace of the default folder.
	Namespace = "BAILINGHUB_AGENT_CLIENT_STORAGE_NAMESPACE"
)

// NoConsent says how to let a program read logins.
const NoConsent = "logins in this folder are plain files; " + Consent + "=true in the environment lets this program read them"

// Choice is what the command line says about the folder.
type Choice struct{ registry, namespace string }

// Help is the help for the flags of a choice.
const Help = `  --registry DIR           the folder with the connections (.config/bailinghub
                           in the home folder)
  --namespace N            the part of that folder for the programs of a storage
                           namespace (also as
                           ` + Namespace + `)
`

// Flags adds the flags of a choice.
func (c *Choice) Flags(flags *flag.FlagSet) {
	flags.StringVar(&c.registry, "registry", "", "")
	flags.StringVar(&c.namespace, "namespace", "", "")
}

// Mistake says what is wrong with the flags; "" for nothing.
func (c *Choice) Mistake(given map[string]bool, getenv func(string) string) string {
	switch namespace := getenv(Namespace); {
	case given["registry"] && c.registry == "":
		return "--registry needs a folder"
	case given["registry"] && given["namespace"]:
		return "--namespace is about the default folder, and --registry names another"
	case given["namespace"] && c.namespace == "":
		return "--namespace needs a name"
	case given["namespace"] && namespace != "" && namespace != c.namespace:
		return "--namespace and " + Namespace + " differ"
	}
	return ""
}

// Open gives the folder with its path, and whether it may be asked for logins.
func (c *Choice) Open(getenv func(string) string) (dir *registry.Dir, path string, consent bool, err error) {
	path = c.registry
	if path == "" {
		namespace := c.namespace
		if namespace == "" {
			namespace = getenv(Namespace)
		}
		if path, err = registry.DefaultDir(namespace); err != nil {
			return nil, "", false, err
		}
	}
	var options []registry.DirOption
	if consent = getenv(Consent) == "true"; consent {
		options = append(options, registry.AllowPlainCredentials())
	}
	dir, err = registry.OpenDir(path, options...)
	return dir, path, consent, err
}

// Sentence is an error of package registry for people, without the name of the
// package and safe to print.
func Sentence(err error) string {
	return receipt.Printable(strings.TrimPrefix(err.Error(), "registry: "))
}
