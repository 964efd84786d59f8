//! `#[derive(Keys)]`: the keys of a section of `headwater.toml`, from the struct that holds them.
//!
//! The derive adds `pub const KEYS`, one `(name, unit, meaning)` for each field:
//!
//! - the meaning is the field's doc comment;
//! - the unit stands in `#[key(unit = "bytes")]`. A field whose type is a number must have one;
//!   `#[key(unit = "none")]` is for counts and indices without a unit;
//! - fields with `#[serde(skip)]` or `#[key(skip)]` are not keys of the section.
//!
//! ```
//! use headwater_config_derive::Keys;
//!
//! #[derive(Keys)]
//! struct Cache {
//!     /// Folder of the cache;
//!     /// empty: none.
//!     folder: String,
//!     /// Largest size.
//!     #[key(unit = "bytes")]
//!     bytes_max: u64,
//!     /// How often it is cleaned at once.
//!     #[key(unit = "none")]
//!     passes: u32,
//!     #[key(skip)]
//!     opened: bool,
//! }
//!
//! let folder = ("folder", "", "Folder of the cache; empty: none.");
//! let bytes_max = ("bytes_max", "bytes", "Largest size.");
//! let passes = ("passes", "", "How often it is cleaned at once.");
//! assert_eq!(Cache::KEYS, [folder, bytes_max, passes]);
//! # let _ = Cache { folder: String::new(), bytes_max: 0, passes: 0, opened: false };
//! ```
//!
//! A number that does not say its unit does not compile, nor does a key without a meaning:
//!
//! ```compile_fail
//! #[derive(headwater_config_derive::Keys)]
//! struct Cache {
//!     /// Largest size.
//!     bytes_max: u64,
//! }
//! ```
//!
//! ```compile_fail
//! #[derive(headwater_config_derive::Keys)]
//! struct Cache {
//!     folder: String,
//! }
//! ```
//!
//! `#[derive(Section)]` is for a section with many keys: its struct nests them by subject, and the section stays
//! flat. It adds `KEYS` too, and `Default`, `Serialize` and `Deserialize` in place of their own derives. A key that
//! is absent has its default, and an unknown one is refused.
//!
//! - `#[key(nested)]` marks a field that holds the keys of one subject, in a struct that derives `Section` too;
//! - `#[key(default = 16)]` is a key's default; without it, it is the default of the type;
//! - a field with `#[serde(skip)]` keeps its default; one with `#[key(skip)]` is read, but not in `KEYS`;
//! - `#[serde(skip_serializing_if = "..")]` is the only other mark of serde's.
//!
//! Not `#[serde(flatten)]`: it copies values before it reads them, and errors lose the key's name.
//!
//! ```
//! use headwater_config_derive::Section;
//!
//! #[derive(Section)]
//! struct Node {
//!     /// Address.
//!     listen: String,
//!     #[key(nested)]
//!     cache: Cache,
//! }
//!
//! #[derive(Section)]
//! struct Cache {
//!     /// Folder of the cache.
//!     cache_dir: String,
//!     /// Its limit.
//!     #[key(unit = "bytes", default = 1 << 30)]
//!     cache_bytes: u64,
//! }
//!
//! let node: Node = serde_json::from_str(r#"{"listen": "a:1", "cache_dir": "/c"}"#).unwrap();
//! assert_eq!((node.listen.as_str(), node.cache.cache_dir.as_str()), ("a:1", "/c"));
//! let written = serde_json::to_string(&node).unwrap();
//! assert_eq!(written, r#"{"listen":"a:1","cache_dir":"/c","cache_bytes":1073741824}"#);
//! assert_eq!(Node::KEYS[2], ("cache_bytes", "bytes", "Its limit."));
//!
//! let refused = serde_json::from_str::<Node>(r#"{"cache": {}}"#).err().unwrap().to_string();
//! let known = "unknown field `cache`, expected one of `listen`, `cache_dir`, `cache_bytes`";
//! assert!(refused.starts_with(known), "{refused}");
//! ```
//!
//! Deliberately absent: checks. They are the struct's own `validate`.
#![forbid(unsafe_code)]

mod section;

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{
    Data, DeriveInput, Error, Expr, ExprLit, ExprPath, Field, Fields, Lit, LitStr, Meta, Token,
    Type,
};

/// Types of fields that must say their unit.
const NUMBERS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64"];
/// The unit of a number that has none.
const NO_UNIT: &str = "none";

/// Adds `KEYS` to a struct; the crate's documentation says how fields are marked.
#[proc_macro_derive(Keys, attributes(key))]
pub fn derive_keys(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expanded(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Adds `KEYS`, `Default`, `Serialize` and `Deserialize` to a struct that nests its keys by subject.
#[proc_macro_derive(Section, attributes(key, serde))]
pub fn derive_section(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    section::expanded(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expanded(input: &DeriveInput) -> Result<TokenStream, Error> {
    let mut keys = Vec::new();
    for field in named_fields(input)? {
        let marks = marks(field)?;
        if marks.is_nested || marks.default.is_some() {
            let fault = "`nested` and `default` are for structs that derive `Section`";
            return Err(Error::new_spanned(field, fault));
        }
        keys.extend(key(field, marks)?);
    }
    let name = &input.ident;
    Ok(quote! {
        impl #name {
            /// The keys in the order of their fields: name, unit (empty: none), meaning.
            pub const KEYS: &'static [(&'static str, &'static str, &'static str)] = &[#(#keys),*];
        }
    })
}

fn named_fields(input: &DeriveInput) -> Result<&Punctuated<Field, Token![,]>, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "keys are the fields of a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "keys are fields that have names"));
    };
    Ok(&fields.named)
}

/// The entry of a field; `None` for a field that is no key.
fn key(field: &Field, marks: Marks) -> Result<Option<TokenStream>, Error> {
    let Marks { unit, is_absent, is_unlisted, .. } = marks;
    if is_absent || is_unlisted {
        return Ok(None);
    }
    let Some(name) = field.ident.as_ref().map(ToString::to_string) else { return Ok(None) };
    let meaning = meaning(field);
    if meaning.is_empty() {
        return Err(Error::new_spanned(field, "say what the key means in a doc comment"));
    }
    let unit = match unit {
        Some(unit) if unit == NO_UNIT => String::new(),
        Some(unit) => unit,
        None if is_number(&field.ty) => {
            let fault = "say the number's unit: #[key(unit = \"bytes\")], or \"none\"";
            return Err(Error::new_spanned(field, fault));
        }
        None => String::new(),
    };
    Ok(Some(quote! { (#name, #unit, #meaning) }))
}

/// What the attributes of a field say.
#[derive(Default)]
struct Marks {
    unit: Option<String>,
    default: Option<Expr>,
    /// `serde(skip)`: neither read nor written.
    is_absent: bool,
    /// `key(skip)`: not in `KEYS`.
    is_unlisted: bool,
    /// `key(nested)`: the keys of a subject.
    is_nested: bool,
    /// `serde(skip_serializing_if)`: when it is not written.
    unwritten_if: Option<ExprPath>,
    /// The first other mark of serde's.
    other: Option<Error>,
}

fn marks(field: &Field) -> Result<Marks, Error> {
    let mut marks = Marks::default();
    for attribute in &field.attrs {
        let is_ours = attribute.path().is_ident("key");
        if !is_ours && !attribute.path().is_ident("serde") {
            continue;
        }
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                *(if is_ours { &mut marks.is_unlisted } else { &mut marks.is_absent }) = true;
            } else if is_ours && meta.path.is_ident("nested") {
                marks.is_nested = true;
            } else if is_ours && meta.path.is_ident("unit") {
                marks.unit = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if is_ours && meta.path.is_ident("default") {
                marks.default = Some(meta.value()?.parse()?);
            } else if is_ours {
                return Err(
                    meta.error("`key` takes `unit = \"..\"`, `default = ..`, `nested` or `skip`")
                );
            } else if meta.path.is_ident("skip_serializing_if") {
                marks.unwritten_if = Some(meta.value()?.parse::<LitStr>()?.parse()?);
            } else {
                marks.other = Some(meta.error("`Section` does not have this mark of serde's"));
                if let Ok(value) = meta.value() {
                    value.parse::<Expr>()?;
                }
            }
            Ok(())
        })?;
    }
    Ok(marks)
}

/// The doc comment as one paragraph.
fn meaning(field: &Field) -> String {
    let mut words: Vec<String> = Vec::new();
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(doc) = &attribute.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &doc.value
        {
            words.extend(line.value().split_whitespace().map(str::to_owned));
        }
    }
    words.join(" ")
}

fn is_number(kind: &Type) -> bool {
    let Type::Path(path) = kind else { return false };
    path.path.segments.last().is_some_and(|last| NUMBERS.iter().any(|name| last.ident == name))
}
