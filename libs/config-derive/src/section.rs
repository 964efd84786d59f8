//! `#[derive(Section)]`: reads and writes a flat section whose struct nests its keys by subject.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error};

use crate::{key, marks, named_fields};

/// What is done for each field, in the order of the fields.
#[derive(Default)]
struct Parts {
    /// Names with values.
    defaults: Vec<TokenStream>,
    /// Slices of entries of `KEYS`.
    keys: Vec<TokenStream>,
    /// Slices of names that can be read.
    names: Vec<TokenStream>,
    /// Reads of subjects, and of single keys as arms of a `match`.
    nested: Vec<TokenStream>,
    reads: Vec<TokenStream>,
    writes: Vec<TokenStream>,
}

pub(crate) fn expanded(input: &DeriveInput) -> Result<TokenStream, Error> {
    let Parts { defaults, keys, names, nested, reads, writes } = Parts::of(input)?;
    let entry = quote! { (&'static str, &'static str, &'static str) };
    let keys = joined(&keys, &entry, &quote! { ("", "", "") });
    let names = joined(&names, &quote! { &'static str }, &quote! { "" });
    let (name, serde) = (&input.ident, serde_impls(input));
    Ok(quote! {
        impl ::core::default::Default for #name {
            fn default() -> Self {
                Self { #(#defaults),* }
            }
        }

        impl #name {
            /// The keys in the order of their fields: name, unit (empty: none), meaning.
            pub const KEYS: &'static [#entry] = #keys;

            #[doc(hidden)]
            pub const NAMES: &'static [&'static str] = #names;

            /// Reads the value of a key, if it is one of these.
            #[doc(hidden)]
            pub fn read_key<'de, A: ::serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                from: &mut A,
            ) -> ::core::result::Result<bool, A::Error> {
                #(#nested)*
                match name {
                    #(#reads)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            #[doc(hidden)]
            pub fn write_keys<S: ::serde::ser::SerializeStruct>(
                &self,
                to: &mut S,
            ) -> ::core::result::Result<(), S::Error> {
                #(#writes)*
                Ok(())
            }
        }

        #serde
    })
}

// === impl Parts ===

impl Parts {
    fn of(input: &DeriveInput) -> Result<Self, Error> {
        let mut parts = Self::default();
        for field in named_fields(input)? {
            let mut marks = marks(field)?;
            if let Some(other) = marks.other.take() {
                return Err(other);
            }
            let (Some(name), kind) = (&field.ident, &field.ty) else { continue };
            parts.defaults.push(match marks.default.take() {
                Some(value) => quote! { #name: #value },
                None => quote! { #name: ::core::default::Default::default() },
            });
            if marks.is_absent {
                continue;
            }
            if marks.is_nested {
                parts.keys.push(quote! { #kind::KEYS });
                parts.names.push(quote! { #kind::NAMES });
                let read = quote! { if self.#name.read_key(name, from)? { return Ok(true); } };
                parts.nested.push(read);
                parts.writes.push(quote! { self.#name.write_keys(to)?; });
                continue;
            }
            let text = name.to_string();
            let unless = marks.unwritten_if.take().map(|test| quote! { if !#test(&self.#name) });
            parts.names.push(quote! { &[#text] });
            parts.reads.push(quote! { #text => self.#name = from.next_value()?, });
            parts.writes.push(quote! { #unless { to.serialize_field(#text, &self.#name)?; } });
            parts.keys.extend(key(field, marks)?.map(|key| quote! { &[#key] }));
        }
        Ok(parts)
    }
}

/// All entries of slices, at compile time.
fn joined(slices: &[TokenStream], kind: &TokenStream, filler: &TokenStream) -> TokenStream {
    quote! {{
        const SLICES: &[&[#kind]] = &[#(#slices),*];
        const COUNT: usize = {
            let (mut count, mut slice) = (0, 0);
            while slice < SLICES.len() {
                count += SLICES[slice].len();
                slice += 1;
            }
            count
        };
        const ALL: [#kind; COUNT] = {
            let (mut all, mut count, mut slice) = ([#filler; COUNT], 0, 0);
            while slice < SLICES.len() {
                let mut at = 0;
                while at < SLICES[slice].len() {
                    all[count] = SLICES[slice][at];
                    (count, at) = (count + 1, at + 1);
                }
                slice += 1;
            }
            all
        };
        &ALL
    }}
}

/// As serde derives them for a struct with `deny_unknown_fields` and `default`. A value is read where it stands, and
/// an unknown name is refused while the name is read: formats then add the place to the error.
fn serde_impls(input: &DeriveInput) -> TokenStream {
    let (name, text) = (&input.ident, input.ident.to_string());
    quote! {
        impl ::serde::Serialize for #name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                let mut to = serializer.serialize_struct(#text, Self::NAMES.len())?;
                self.write_keys(&mut to)?;
                ::serde::ser::SerializeStruct::end(to)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for #name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                struct Name(&'static str);
                impl<'de> ::serde::Deserialize<'de> for Name {
                    fn deserialize<D: ::serde::Deserializer<'de>>(
                        deserializer: D,
                    ) -> ::core::result::Result<Self, D::Error> {
                        let given = <::std::string::String as ::serde::Deserialize>::deserialize(deserializer)?;
                        let known = #name::NAMES.iter().find(|known| **known == given);
                        let unknown = || ::serde::de::Error::unknown_field(&given, #name::NAMES);
                        known.map(|known| Self(known)).ok_or_else(unknown)
                    }
                }

                struct Visitor;
                impl<'de> ::serde::de::Visitor<'de> for Visitor {
                    type Value = #name;

                    fn expecting(&self, out: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        out.write_str(concat!("struct ", #text))
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        mut from: A,
                    ) -> ::core::result::Result<#name, A::Error> {
                        let mut section = <#name as ::core::default::Default>::default();
                        while let Some(Name(name)) = from.next_key()? {
                            section.read_key(name, &mut from)?;
                        }
                        Ok(section)
                    }
                }
                deserializer.deserialize_struct(#text, Self::NAMES, Visitor)
            }
        }
    }
}
