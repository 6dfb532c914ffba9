// The limited handlers with Go's net/http: go run server.go HANDLERS PORT
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
)

type handler struct{ Name, Method, Path string }

type answer struct {
	Handler string  `json:"handler"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Name    *string `json:"name"`
	Header  *string `json:"header"`
	Plan    *string `json:"plan"`
	Cookie  *string `json:"cookie"`
	Query   *string `json:"query"`
	Token   *string `json:"token"`
}

func present(is bool, value string) *string {
	if !is {
		return nil
	}
	return &value
}

func reply(w http.ResponseWriter, r *http.Request, handler string, name *string) {
	said := answer{Handler: handler, Method: r.Method, Path: r.URL.Path, Name: name}
	said.Header = present(r.Header.Get("X-Api-Key") != "", r.Header.Get("X-Api-Key"))
	said.Plan = present(r.Header.Get("X-Plan") != "", r.Header.Get("X-Plan"))
	if cookie, err := r.Cookie("sid"); err == nil {
		said.Cookie = &cookie.Value
	}
	said.Query = present(r.URL.Query().Has("k"), r.URL.Query().Get("k"))
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	said.Token = present(found && strings.EqualFold(scheme, "bearer"), strings.TrimSpace(token))
	text, _ := json.Marshal(said)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Read", string(text))
	w.Write(text)
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var handlers []handler
	if err := json.Unmarshal(text, &handlers); err != nil {
		log.Fatal(err)
	}
	only := func(method string, then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method && !(method == "GET" && r.Method == "HEAD") {
				http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
				return
			}
			then(w, r)
		}
	}
	mux := http.NewServeMux()
	for _, one := range handlers {
		one := one
		mux.HandleFunc(one.Path, only(one.Method, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != one.Path { // "/" and "/v1/reports/" are trees to the mux
				http.NotFound(w, r)
				return
			}
			reply(w, r, one.Name, nil)
		}))
	}
	tree := func(prefix, name string, takes func(rest string) bool) {
		mux.HandleFunc(prefix, only("GET", func(w http.ResponseWriter, r *http.Request) {
			rest := strings.TrimPrefix(r.URL.Path, prefix)
			if !takes(rest) {
				http.NotFound(w, r)
				return
			}
			reply(w, r, name, &rest)
		}))
	}
	tree("/u/", "user", func(rest string) bool { return rest != "" && !strings.Contains(rest, "/") })
	tree("/f/", "files", func(rest string) bool { return rest != "" })
	report := only("GET", func(w http.ResponseWriter, r *http.Request) { reply(w, r, "report", nil) })
	mux.HandleFunc("/v1/report", report)
	mux.HandleFunc("/v1/report.json", report)
	mux.HandleFunc("/v1/report.csv", report)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2], mux))
}
