package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
)

type setPermissionInput struct {
	Permission string `path:"permission" maxLength:"64" doc:"One that can be allocated."`
	Body       api.SetPermission
}

func (a *API) mountPermission() {
	route(a, huma.Operation{
		OperationID: "list-permissions", Method: http.MethodGet, Path: "/api/permissions", Tags: []string{"users"},
		Summary: "List each permission with the lowest role that has it", Description: "All of them at once; next is always empty.",
	},
		access.PermissionRead, func(ctx context.Context, actor access.Actor, _ *struct{}) (*list[api.Permission], error) {
			rows, err := a.engine.Permissions(ctx, actor)
			return listOf(rows, "", err, showPermission)
		})
	route(a, huma.Operation{
		OperationID: "set-permission", Method: http.MethodPatch, Path: "/api/permissions/{permission}", Tags: []string{"users"},
		Summary: "Allocate a permission on states to a role and those above it, or disable it",
		Description: "tf_state:read, tf_state:write and tf_state:manage can be allocated. It holds from the next request on, on every server. " +
			"The steps of runs act as operator: with tf_state:read or tf_state:write above that, or disabled, they are refused too.",
	},
		access.UserManage, func(ctx context.Context, actor access.Actor, in *setPermissionInput) (*one[api.Permission], error) {
			p, err := a.engine.AllocatePermission(ctx, actor, in.Permission, in.Body.Role)
			return oneOf(showPermission(p), err)
		})
}

func showPermission(p engine.PermissionRole) api.Permission {
	return api.Permission{Permission: string(p.Permission), Role: string(p.Role), DefaultRole: string(p.Default), Allocatable: p.Allocatable}
}
