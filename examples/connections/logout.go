package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/bailinghub/bailinghub-go/agentclient/agentauth"
	"github.com/bailinghub/bailinghub-go/registry"
)

// logout ends a login.
func (p *program) logout(ctx context.Context, args []string) error {
	connection, err := p.choose(ctx, args[0])
	if err != nil {
		return err
	}
	_, stored := p.dir.Credentials(ctx, connection.Key)
	err = agentauth.LogOut(ctx, p.dir, connection.Key, agentauth.LogOutOptions{Forget: p.options.forget})
	if err != nil {
		return err
	}
	current, err := p.current(ctx)
	if err != nil {
		return err
	}
	switch {
	case p.options.json:
		return p.writeJSON(result{Connection: describe(connection, current), Login: "no login"})
	case errors.Is(stored, registry.ErrNotLoggedIn):
		fmt.Fprintf(p.out, "%s had no login.\n", called(connection))
	default:
		fmt.Fprintf(p.out, "%s is logged out. The connection stays registered.\n", called(connection))
	}
	return nil
}
