package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/redact"
)

type addUserInput struct {
	Body api.AddUser
}

type setUserInput struct {
	ByID
	Body api.SetUser
}

type addOrganizationInput struct {
	Body api.AddOrganization
}

func (a *API) mountUser() {
	route(a, huma.Operation{OperationID: "list-users", Method: http.MethodGet, Path: "/api/users", Tags: []string{"users"}, Summary: "List users"},
		access.UserRead, func(ctx context.Context, actor access.Actor, in *Paging) (*list[api.User], error) {
			rows, next, err := a.engine.Users(ctx, actor, in.page())
			return listOf(rows, next, err, showUser)
		})
	route(a, huma.Operation{
		OperationID: "add-user", Method: http.MethodPost, Path: "/api/users", Tags: []string{"users"}, DefaultStatus: http.StatusCreated,
		Summary: "Add a person", Description: "The answer holds a link that signs the person in once, within 24 hours.",
	},
		access.UserManage, func(ctx context.Context, actor access.Actor, in *addUserInput) (*one[api.AddedUser], error) {
			u, code, err := a.engine.AddUser(ctx, actor, in.Body.Name, in.Body.Role)
			return oneOf(api.AddedUser{User: showUser(u), SignInLink: a.signInLink(code)}, err)
		})
	route(a, huma.Operation{
		OperationID: "link-user", Method: http.MethodPost, Path: "/api/users/{id}/sign-in-link", Tags: []string{"users"}, DefaultStatus: http.StatusCreated,
		Summary: "Make another sign-in link for a person",
	},
		access.UserManage, func(ctx context.Context, actor access.Actor, in *ByID) (*one[api.AddedUser], error) {
			u, code, err := a.engine.LinkUser(ctx, actor, in.ID)
			return oneOf(api.AddedUser{User: showUser(u), SignInLink: a.signInLink(code)}, err)
		})
	route(a, huma.Operation{
		OperationID: "set-user", Method: http.MethodPatch, Path: "/api/users/{id}", Tags: []string{"users"},
		Summary: "Set a user's role, or disable or enable them", Description: "The last administrator stays one.",
	},
		access.UserManage, func(ctx context.Context, actor access.Actor, in *setUserInput) (*one[api.User], error) {
			u, err := a.engine.ChangeUser(ctx, actor, in.ID, engine.UserChange{Role: in.Body.Role, Disabled: in.Body.Disabled})
			return oneOf(showUser(u), err)
		})
	route(a, huma.Operation{OperationID: "list-organizations", Method: http.MethodGet, Path: "/api/organizations", Tags: []string{"users"}, Summary: "List organizations"},
		access.PlatformManage, func(ctx context.Context, actor access.Actor, in *Paging) (*list[api.Organization], error) {
			rows, next, err := a.engine.Organizations(ctx, actor, in.page())
			return listOf(rows, next, err, showOrganization)
		})
	route(a, huma.Operation{
		OperationID: "add-organization", Method: http.MethodPost, Path: "/api/organizations", Tags: []string{"users"}, DefaultStatus: http.StatusCreated,
		Summary: "Add an organization",
	},
		access.PlatformManage, func(ctx context.Context, actor access.Actor, in *addOrganizationInput) (*one[api.Organization], error) {
			o, err := a.engine.AddOrganization(ctx, actor, in.Body.Name)
			return oneOf(showOrganization(o), err)
		})
}

// signInLink is where a browser uses a code up. The code stands behind #, which browsers keep to themselves, so it
// is in no log on the way.
func (a *API) signInLink(code redact.Secret) string { return SignInLink(a.base.String(), code) }

// SignInLink is the link of a code, under the server's base URL.
func SignInLink(base string, code redact.Secret) string {
	return base + "/signin#code=" + code.Reveal()
}

func showUser(u access.UserRecord) api.User {
	return api.User{ID: u.ID, Name: u.Name, Service: u.Service, Role: string(u.Role), CreatedAt: u.CreatedAt.UTC(), DisabledAt: api.Time(u.DisabledAt)}
}

func showOrganization(o access.Organization) api.Organization {
	return api.Organization{ID: o.ID, Name: o.Name, CreatedAt: o.CreatedAt.UTC()}
}
