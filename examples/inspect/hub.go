package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/oauth2"

	"github.com/bailinghub/bailinghub-go/agentclient"
	"github.com/bailinghub/bailinghub-go/feedback"
	"github.com/bailinghub/bailinghub-go/host"
	"github.com/bailinghub/bailinghub-go/registry"
)

var (
	variableForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	invocationForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// hubMistake says what is wrong with the flags about a running Hub. It repeats
// no value: somebody may have put a token in the wrong place.
func (o options) hubMistake() string {
	switch {
	case !o.allowInsecureHTTP && insecure(o.hub):
		return "--hub is plain http to another machine, and the token can be read on the way there: make it https, or say --allow-insecure-http"
	case o.tokenEnv == "":
		return "--token-env is missing: the name of the environment variable that holds the access token"
	case !variableForm.MatchString(o.tokenEnv):
		return "--token-env takes the name of an environment variable, and this is none"
	case o.workspace == "":
		return "--workspace is missing: the one that the operations were sent to"
	}
	return o.idMistake()
}

// idMistake says what is wrong with the invocation ids.
func (o options) idMistake() string {
	if len(o.ids) == 0 {
		return "there is no invocation id to ask about"
	}
	for i, id := range o.ids {
		if !invocationForm.MatchString(id) {
			return fmt.Sprintf("argument %d is not an invocation id, which has 64 digits 0-9 and a-f", i+1)
		}
	}
	return ""
}

// insecure reports whether nothing but the lack of https is wrong with the
// address of a Hub.
func insecure(hubURL string) bool {
	_, refused := registry.NormalizeHubURL(hubURL, false)
	_, wrong := registry.NormalizeHubURL(hubURL, true)
	return refused != nil && wrong == nil
}

// questions gives the questions to a running Hub.
func (o options) questions(getenv func(string) string) ([]question, error) {
	token := getenv(o.tokenEnv)
	if token == "" {
		return nil, errors.New("the environment variable that --token-env names is not set, or empty: put the access token there")
	}
	client, err := agentclient.New(agentclient.Config{
		HubURL:            o.hub,
		Workspace:         o.workspace,
		TokenSource:       oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}),
		AllowInsecureHTTP: o.allowInsecureHTTP,
	}, agentclient.WithTimeout(o.timeout))
	if refused, ok := errors.AsType[*feedback.Error](err); ok {
		return nil, errors.New(strings.NewReplacer("Config.HubURL", "--hub", "Config.Workspace", "--workspace").Replace(refused.Feedback.Message))
	} else if err != nil {
		return nil, err
	}
	var questions []question
	for _, id := range o.ids {
		questions = append(questions, question{
			id: id,
			ask: func(ctx context.Context) host.Observation {
				observed, err := client.InspectInvocation(ctx, id)
				return host.Observation{Original: host.Original{InvocationID: id, Workspace: o.workspace}, Receipt: observed, Err: err}
			},
		})
	}
	return questions, nil
}
