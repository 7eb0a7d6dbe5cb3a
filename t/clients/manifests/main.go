// Reads files as Kustomize and Compose do, and prints as JSON what these make of
// them: the objects of Kubernetes in a directory of Kustomize, each by its type,
// which refuses fields that it does not have, and the project of files of
// Compose, which its schema has accepted:
//
//	manifests DIRECTORY FILE...
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func objects(dir string) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()

	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}

	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).
		UniversalDeserializer()

	kustomizer := krusty.MakeKustomizer(krusty.MakeDefaultOptions())

	resources, err := kustomizer.Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}

	var all []runtime.Object

	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}

		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return nil, err
		}

		all = append(all, object)
	}

	return all, nil
}

func project(files []string) (*types.Project, error) {
	options, err := cli.NewProjectOptions(files)
	if err != nil {
		return nil, err
	}

	return options.LoadProject(context.Background())
}

func main() {
	kubernetes, err := objects(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}

	compose, err := project(os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}

	err = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"kubernetes": kubernetes,
		"compose":    compose,
	})
	if err != nil {
		log.Fatal(err)
	}
}
