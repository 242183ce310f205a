package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
)

type tokensInput struct {
	Paging
	All bool `query:"all" doc:"Everybody's tokens in the organization, for administrators."`
}

type createTokenInput struct {
	Body api.CreateToken
}

// ByID is the parameter of a path that names a row.
type ByID struct {
	ID string `path:"id" maxLength:"64"`
}

func (a *API) mountToken() {
	route(a, huma.Operation{OperationID: "list-tokens", Method: http.MethodGet, Path: "/api/tokens", Tags: []string{"tokens"}, Summary: "List tokens, newest first"},
		access.TokenOwn, func(ctx context.Context, actor access.Actor, in *tokensInput) (*list[api.Token], error) {
			rows, next, err := a.engine.Tokens(ctx, actor, in.All, in.page())
			return listOf(rows, next, err, showToken)
		})
	route(a, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/api/tokens", Tags: []string{"tokens"}, DefaultStatus: http.StatusCreated,
		Summary: "Create a token", Description: "Without a role it is one's own; with one, an administrator makes a service user and its token. The token is shown once.",
	},
		access.TokenOwn, func(ctx context.Context, actor access.Actor, in *createTokenInput) (*one[api.CreatedToken], error) {
			b := in.Body
			made, err := a.engine.CreateToken(ctx, actor, engine.TokenRequest{Name: b.Name, Role: b.Role, Organization: b.Organization, ExpiresIn: b.ExpiresIn})
			return oneOf(api.CreatedToken{ID: made.ID, Token: made.Token.Reveal()}, err)
		})
	route(a, huma.Operation{OperationID: "revoke-token", Method: http.MethodDelete, Path: "/api/tokens/{id}", Tags: []string{"tokens"}, Summary: "Revoke a token at once"},
		access.TokenOwn, func(ctx context.Context, actor access.Actor, in *ByID) (*struct{}, error) {
			return nil, a.engine.RevokeToken(ctx, actor, in.ID)
		})
}

func showToken(t engine.ListedToken) api.Token {
	return api.Token{
		ID: t.ID, Name: t.Name, User: t.User, UserName: t.UserName, Role: string(t.Role), CreatedAt: t.CreatedAt.UTC(),
		ExpiresAt: api.Time(t.ExpiresAt), RevokedAt: api.Time(t.RevokedAt), LastUsedAt: api.Time(t.LastUsedAt),
	}
}
