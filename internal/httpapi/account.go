package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
)

type addAccountInput struct {
	Body api.AddAccount
}

type setAccountInput struct {
	Name string `path:"name" maxLength:"128"`
	Body api.SetAccount
}

func (a *API) mountAccount() {
	route(a, huma.Operation{OperationID: "list-accounts", Method: http.MethodGet, Path: "/api/accounts", Tags: []string{"accounts"}, Summary: "List accounts"},
		access.AccountRead, func(ctx context.Context, actor access.Actor, in *Paging) (*list[api.Account], error) {
			rows, next, err := a.engine.Accounts(ctx, actor, in.page())
			return listOf(rows, next, err, showAccount)
		})
	route(a, huma.Operation{
		OperationID: "add-account", Method: http.MethodPost, Path: "/api/accounts", Tags: []string{"accounts"}, DefaultStatus: http.StatusCreated,
		Summary: "Add an account",
	},
		access.AccountWrite, func(ctx context.Context, actor access.Actor, in *addAccountInput) (*one[api.Account], error) {
			acc, err := a.engine.AddAccount(ctx, actor, in.Body.Name)
			return oneOf(showAccount(acc), err)
		})
	route(a, huma.Operation{
		OperationID: "set-account", Method: http.MethodPatch, Path: "/api/accounts/{name}", Tags: []string{"accounts"},
		Summary: "Enable or disable an account",
	},
		access.AccountWrite, func(ctx context.Context, actor access.Actor, in *setAccountInput) (*one[api.Account], error) {
			acc, err := a.engine.EnableAccount(ctx, actor, in.Name, in.Body.Enabled)
			return oneOf(showAccount(acc), err)
		})
}

func showAccount(acc access.Account) api.Account {
	return api.Account{ID: acc.ID, Name: acc.Name, Enabled: acc.Enabled, CreatedAt: acc.CreatedAt.UTC()}
}
